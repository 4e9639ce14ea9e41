"""A study's YAML becomes complete configurations, and each mistake in it is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn.base.errors import UserError
from adaqn.base.files import Json, path_safe
from adaqn.studies.definition import expand, matching_arms, read_study
from adaqn.studies.study import RunKey, Study, differences, seeds_from
from tests.studies.tiny import SEARCHING, TINY, tiny


def test_arms_environments_and_seeds_make_the_runs_seed_by_seed() -> None:
    study = tiny(environments=["CartPole-v1", "Acrobot-v1"])
    assert list(study.arms) == ["adadqn", "dqn-8", "dqn-16"]
    assert [str(key) for key in study.runs()] == [
        f"{arm}/{environment}/{seed}"
        for seed in (0, 1)
        for environment in ("CartPole-v1", "Acrobot-v1")
        for arm in ("adadqn", "dqn-8", "dqn-16")
    ]
    config = study.config(RunKey("dqn-16", "Acrobot-v1", 1))
    assert (config.algo, config.env, config.seed, config.steps) == ("dqn", "Acrobot-v1", 1, 400)
    assert [member.hidden for member in config.members] == [(16,)]
    assert config.settings.target_update_interval == 50


def test_an_environment_that_the_arms_agree_on_need_not_be_named() -> None:
    assert tiny().environments == {"CartPole-v1": {"env": "CartPole-v1"}}


def test_environments_may_be_labelled_entries() -> None:
    windy = {"env": "LunarLander-v3", "env_kwargs": {"enable_wind": True}}
    study = tiny(environments={"calm": {"env": "LunarLander-v3"}, "windy": windy})
    assert study.config(RunKey("adadqn", "windy", 0)).env_kwargs == {"enable_wind": True}
    assert study.config(RunKey("adadqn", "calm", 0)).env_kwargs == {}


def test_what_an_environment_is_made_with_is_never_left_out() -> None:
    kwargs = {"sutton_barto_reward": True}
    made: Json = {**TINY["config"], "env_kwargs": kwargs}
    assert tiny(config=made).environments == {"CartPole-v1": {"env": "CartPole-v1", "env_kwargs": kwargs}}
    with pytest.raises(UserError, match="configuration of the arm adadqn says env_kwargs, which the study tiny would"):
        tiny(config=made, environments=["CartPole-v1"])
    with pytest.raises(UserError, match="its arms do not agree on one"):
        tiny(arms={"plain": {}, "other": {"config": made}})


def test_a_scale_that_leaves_out_all_arms_says_so() -> None:
    with pytest.raises(UserError, match="needs at least one arm, but its scale none leaves all of them out"):
        expand({**TINY, "scales": {"none": {"without": ["*"]}}}, "tiny", "none")


def test_labels_are_names_of_directories() -> None:
    assert path_safe("ALE/Pong-v5") == "ALE-Pong-v5"
    assert path_safe("LunarLander-v3") == "LunarLander-v3"
    assert list(tiny(environments=["MinAtar/Breakout"]).environments) == ["MinAtar-Breakout"]
    with pytest.raises(UserError, match="name of a directory"):
        tiny(arms={"a/b": {}})
    with pytest.raises(UserError, match="name of a directory"):
        tiny(arms={"logs": {}})


def test_a_scale_changes_seeds_environments_and_what_all_arms_have() -> None:
    scales = {
        "paper": {"seeds": 3},
        "laptop": {
            "seeds": "5-6,9",
            "environments": ["Acrobot-v1"],
            "run": {"steps": 150, "settings": {"gamma": 0.9}},
            "arms": {"adadqn": {"settings": {"gamma": 0.8}}},
            "without": ["dqn-16"],
        },
    }
    values = {**TINY, "scales": scales}
    paper, laptop = expand(values, "tiny", "paper"), expand(values, "tiny", "laptop")
    assert paper.seeds == (0, 1, 2) and laptop.seeds == (5, 6, 9)
    assert list(laptop.arms) == ["adadqn", "dqn-8"]
    assert [laptop.arms[arm]["settings"]["gamma"] for arm in laptop.arms] == [0.8, 0.9]
    assert [laptop.arms[arm]["steps"] for arm in laptop.arms] == [150, 150]
    assert paper.arms["adadqn"]["settings"]["gamma"] == 0.99
    with pytest.raises(UserError, match="say --scale paper or --scale laptop"):
        expand(values, "tiny")
    with pytest.raises(UserError, match="'laptp'; did you mean 'laptop'"):
        expand(values, "tiny", "laptp")


def test_another_algorithm_takes_only_what_it_can_use() -> None:
    arms = {"adadqn": {}, "searl": {"algo": "searl"}}
    settings = {"learning_starts": 50, "exploration_steps": 100, "generation_interval": 500}
    config = {"env": "CartPole-v1", "steps": 1000, "space": "vectors", "settings": settings}
    study = tiny(config=config, arms=arms, run={"settings": {"exploration_final_eps": 0.05, "batch_size": 16}})
    assert study.arms["adadqn"]["settings"]["exploration_final_eps"] == 0.05
    assert study.arms["searl"]["settings"]["batch_size"] == 16
    assert study.arms["searl"]["settings"]["generation_interval"] == 500
    assert "exploration_final_eps" not in study.arms["searl"]["settings"]


def test_an_arm_may_begin_with_a_configuration_of_its_own() -> None:
    arms = {"adadqn": {}, "lander": {"config": "lunar-lander", "settings": {"gamma": 0.5}}}
    with pytest.raises(UserError, match="its arms do not agree on one"):
        tiny(arms=arms)
    study = tiny(arms=arms, environments=["LunarLander-v3"])
    assert study.arms["lander"]["steps"] == 500_000
    assert study.arms["lander"]["settings"]["gamma"] == 0.5
    assert len(study.arms["lander"]["members"]) == 4


def test_choices_name_the_arms_that_came_of_a_group() -> None:
    study = tiny(choices={"grid-search": ["dqn"]}, tuning_seeds="100-101")
    assert study.choices == {"grid-search": ("dqn-8", "dqn-16")}
    # Only the arms that are chosen among are run on the tuning seeds.
    tuning = [key for key in study.runs() if key.seed >= 100]
    assert [key.arm for key in tuning] == ["dqn-8", "dqn-16"] * 2
    assert len(study.runs()) == 3 * 2 + 4


def test_the_best_trial_of_a_search_is_an_arm_of_its_own() -> None:
    study = tiny(**SEARCHING)
    assert study.retrained == {"best": "search"}
    best = study.arms["best"]
    assert (best["algo"], best["steps"], best["space"], best["members"]) == ("dqn", 300, None, None)
    assert best["settings"]["gamma"] == 0.9 and "trial_steps" not in best["settings"]
    # The search chooses on the tuning seeds, where nothing is reported.
    assert [str(key) for key in study.runs()] == [
        "search/CartPole-v1/5",
        "best/CartPole-v1/5",
        "search/CartPole-v1/0",
        "search/CartPole-v1/1",
    ]
    for wrong in ("serach", "best"):
        with pytest.raises(UserError, match="must be an arm that searches"):
            tiny(**{**SEARCHING, "arms": {**SEARCHING["arms"], "best": {"best_trial_of": wrong}}})
    with pytest.raises(UserError, match="needs tuning_seeds"):
        tiny(**{**SEARCHING, "tuning_seeds": []})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "needs at least one seed"),
        ({"seeds": [1, 1]}, "seeds must be different"),
        ({"seeds": [3], "tuning_seeds": [3]}, "seeds that choose a setting cannot report on it: 3"),
        ({"choices": {"best": ["dqn"]}}, "needs tuning_seeds"),
        ({"choices": {"best": ["dqnn"]}, "tuning_seeds": [9]}, "unknown arm 'dqnn'; did you mean 'dqn-8'"),
        ({"arm": {}}, "unknown entry in the study tiny: 'arm'; did you mean 'arms'"),
        ({"run": {"settings": {"gama": 0.9}}}, "no arm has 'gama'; did you mean 'gamma'"),
        ({"run": {"algo": "dqn"}}, "cannot say algo"),
        ({"arms": {"a": {"settings": {"gama": 1}}}}, "unknown setting 'gama'; did you mean 'gamma'"),
        ({"run": {"seed": 3}}, "cannot say seed: that is for `seeds`"),
        ({"run": {"settings": ["gamma"]}}, "settings in run of the study tiny must be a mapping"),
        ({"arms": {"a": {"env": "Acrobot-v1"}}}, "cannot say env"),
        ({"arms": {"a": {"env_kwargs": {"enable_wind": True}}}}, "cannot say env_kwargs: that is for `environments`"),
        ({"arms": {"a": {"wrappers": ["a:B"]}}}, "cannot say wrappers: that is for `environments`"),
        ({"arms": {"a": {"seed": 3}}}, "cannot say seed: that is for `seeds`"),
        ({"arms": {"a": {"algo": "adaqdn"}}}, "unknown algorithm 'adaqdn'; did you mean 'adadqn'"),
        ({"arms": {"a": {"stesp": 5}}}, "unknown entry in the arm a: 'stesp'; did you mean 'steps'"),
        ({"arms": {}}, "needs at least one arm"),
        ({"version": 2}, "has version 2"),
        ({"environments": {"x": {"env_kwargs": {}}}}, "does not say env"),
        ({"environments": ["CartPole-v1", "CartPole-v1"]}, "must be different"),
        ({"environments": {"x": {"env": "A-v1"}, "y": {"env": "A-v1", "imports": "a"}}}, "imports must be a list"),
        ({"scales": ["laptop"]}, "scales of the study tiny must be a mapping"),
    ],
)
def test_a_mistake_is_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        tiny(**changes)
    assert message in str(caught.value)


def test_a_study_is_read_from_a_file_and_a_run_configuration_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(TINY))
    assert read_study(file).name == "mine"
    file.write_text("{algo: dqn, env: CartPole-v1, steps: 10}")
    with pytest.raises(UserError, match="adaqn train --config"):
        read_study(file)
    with pytest.raises(UserError, match="'lunar-landr'; did you mean 'lunar-lander'"):
        read_study("lunar-landr")


def test_the_frozen_form_is_the_study() -> None:
    study = tiny(choices={"grid-search": ["dqn"]}, tuning_seeds=[7])
    assert Study.from_dict(yaml.safe_load(yaml.safe_dump(study.to_dict())), "study.yaml") == study


def test_seeds_are_a_number_a_list_or_ranges() -> None:
    assert seeds_from("seeds", 3) == (0, 1, 2)
    assert seeds_from("seeds", [4, 2]) == (4, 2)
    assert seeds_from("seeds", "0-2, 7") == (0, 1, 2, 7)
    for wrong in ("3-1", "a", "1-", -1, [0.5], "0-99999"):
        with pytest.raises(UserError):
            seeds_from("seeds", wrong)


def test_patterns_choose_arms_in_their_order() -> None:
    assert matching_arms(["dqn-*", "a"], ["a", "dqn-1", "b", "dqn-2"]) == ["a", "dqn-1", "dqn-2"]


def test_differences_name_both_values() -> None:
    before = {"settings": {"gamma": 0.99, "tau": 1}, "members": [{"lr": 1}, {"lr": 2}]}
    after = {"settings": {"gamma": 0.9, "eps": 2}, "members": [{"lr": 1}, {"lr": 3}]}
    assert differences(before, after) == [
        "settings.gamma was 0.99 and is 0.9",
        "settings.tau is gone (it was 1)",
        "members[1].lr was 2 and is 3",
        "settings.eps is new (2)",
    ]
