"""Every experiment of the paper is a study, at the paper's scale and at a laptop's."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from adaqn.runs.config import RunConfig
from adaqn.studies.definition import STUDIES, read_study
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.study import RunKey, Study

RESULTS = Path(__file__).resolve().parents[2] / "results"
MUJOCO = ["mujoco", "mujoco-activations", "mujoco-architectures", "mujoco-learning-rates", "mujoco-optimizers"]
ATARI = ["atari-activations", "atari-adam-epsilons", "atari-architectures"]
ALL = [
    *ATARI,
    "atari-infinite",
    "discounts",
    "lunar-lander",
    "lunar-lander-infinite",
    "minatar-finite",
    "minatar-infinite",
    *MUJOCO,
]


def config(study: Study, arm: str) -> RunConfig:
    return study.config(RunKey(arm, next(iter(study.environments)), 0))


def test_there_is_one_for_each_experiment() -> None:
    assert STUDIES.names() == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_arm_of_both_scales_is_a_whole_configuration(name: str) -> None:
    sizes = {}
    for scale in ("paper", "laptop"):
        study = read_study(name, scale)
        assert study.name == name and study.about
        for arm in study.arms:
            # Made with a shape at hand: no game is started for it. Vectors are of any length.
            place = next(iter(study.environments))
            shape = (84, 84, 4) if place.startswith("Atari") else (10, 10, 4) if place.startswith("MinAtar") else (8,)
            values = study.values(RunKey(arm, place, 0))
            complete = RunConfig.from_dict(values, arm, shape)
            assert complete.steps == values["steps"]
        sizes[scale] = sum(study.arms[key.arm]["steps"] for key in study.runs())
    assert sizes["laptop"] < sizes["paper"] / 4


@pytest.mark.parametrize(("names", "seeds"), [(["lunar-lander"], 20), (MUJOCO, 9), ([*ATARI, "atari-infinite"], 5)])
def test_the_seeds_are_the_papers(names: list[str], seeds: int) -> None:
    for name in names:
        assert read_study(name, "paper").seeds == tuple(range(seeds))


def test_lunar_lander_has_its_ablations() -> None:
    study = read_study("lunar-lander", "laptop")
    assert study.seeds == tuple(range(10))
    singles = ("dqn-25x25", "dqn-50x50", "dqn-100x100", "dqn-200x200")
    assert tuple(study.arms) == ("adadqn", "adadqn-greedy-behaviour", "randdqn", "adadqn-max", *singles)
    assert study.choices == {"grid-search": singles}
    greedy = config(study, "adadqn-greedy-behaviour").settings
    assert (greedy.behaviour_initial_eps, greedy.behaviour_final_eps) == (0.0, 0.0)
    assert config(study, "adadqn").settings.behaviour_initial_eps == 1.0
    assert config(study, "randdqn").settings.selection == "random"
    assert config(study, "adadqn-max").settings.selection == "highest"
    assert {config(study, arm).steps for arm in study.arms} == {200_000}
    assert {config(read_study("lunar-lander", "paper"), arm).steps for arm in study.arms} == {500_000}


@pytest.mark.parametrize("name", sorted(file.parent.name for file in RESULTS.glob("*/study.yaml")))
def test_the_committed_runs_are_done_runs_of_their_study(name: str) -> None:
    study, directory = read_study(name, "laptop"), StudyDirectory(RESULTS / name)
    directory.check(study)
    committed = {file.parent.relative_to(directory.path) for file in directory.path.glob("*/*/*/summary.json")}
    assert len(committed) >= 5  # a study may be committed while it grows
    finished = {key.path for key in study.runs() if directory.state(key).status == "finished"}
    assert finished == committed


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_discounts_are_chosen_learned_or_alone(scale: str) -> None:
    study = read_study("discounts", scale)
    five = [member.discount for member in config(study, "adadqn").members]
    assert five == [0.9863, 0.9875, 0.9891, 0.991, 0.9946]
    singles = study.choices["grid-search"]
    assert list(study.arms) == ["adadqn", "metagradient", *singles]
    assert [config(study, arm).members[0].discount for arm in singles] == five
    assert {config(study, arm).algo for arm in singles} == {"dqn"}
    learned = config(study, "metagradient")
    (member,) = learned.members
    # All else is equal: it starts at the discount that members are compared by.
    assert member.replace(discount=five[0]) == config(study, "adadqn").members[0] and member.discount is None
    assert (learned.algo, learned.settings.gamma, learned.settings.meta_learning_rate) == ("metagradient", 0.99, 0.001)
    assert learned.settings.batch_size == config(study, "adadqn").settings.batch_size
    assert list(study.environments) == (["LunarLander-v3"] if scale == "laptop" else ["Atari-BattleZone", "Atari-Pong"])
    assert len(study.seeds) == (10 if scale == "laptop" else 5)


def test_mujoco_has_every_set_alone() -> None:
    study = read_study("mujoco", "paper")
    assert len(study.environments) == 6
    singles = study.choices["grid-search"]
    assert list(study.arms) == ["adasac", "randsac", *singles]
    alone = [config(study, arm).members for arm in singles]
    assert all(len(members) == 1 for members in alone)
    assert [members[0] for members in alone] == list(config(study, "adasac").members)
    assert len(set(alone)) == 16
    assert {config(study, arm).algo for arm in singles} == {"sac"}
    laptop = read_study("mujoco-learning-rates", "laptop")
    assert (list(laptop.environments), laptop.seeds) == (["Hopper-v5"], (0, 1, 2, 3, 4))
    assert list(laptop.arms) == ["adasac", "randsac", "sac-lr-1e-4", "sac-lr-5e-4", "sac-lr-1e-3"]
    assert {config(laptop, arm).steps for arm in laptop.arms} == {100_000}


def test_atari_in_the_infinite_space_has_four_settings_of_two_algorithms() -> None:
    study = read_study("atari-infinite", "paper")
    settings = {
        (c.algo, c.settings.target_update_interval, c.settings.generation_interval)
        for c in (config(study, arm) for arm in study.arms)
        if c.algo in ("adadqn", "searl")
    }
    assert settings == set(itertools.product(("adadqn", "searl"), (8000, 4000), (80000, 40000)))
    assert {arm: config(study, arm).steps for arm in ("adadqn", "searl", "random-search", "dehb")} == {
        "adadqn": 25_000_000,
        "searl": 10_000_000,
        "random-search": 45_000_000,
        "dehb": 45_000_000,
    }


def test_lunar_lander_in_the_infinite_space_compares_generations() -> None:
    study = read_study("lunar-lander-infinite", "laptop")
    assert study.seeds == (0, 1, 2, 3, 4)
    found = {arm: config(study, arm).settings for arm in study.arms}
    assert {arm: (s.exploit, s.reset_weights, s.buffer_size) for arm, s in found.items()} == {
        "tournament": ("tournament", False, 10_000),
        "truncation": ("truncation", False, 10_000),
        "tournament-reset": ("tournament", True, 10_000),
        "truncation-reset": ("truncation", True, 10_000),
        "tournament-large-buffer": ("tournament", False, 100_000),
    }
    assert "tournament-large-buffer" not in read_study("lunar-lander-infinite", "paper").arms


def test_minatar_compares_four_methods_at_equal_samples() -> None:
    study = read_study("minatar-infinite", "laptop")
    assert list(study.arms) == ["adadqn", "searl", "random-search", "dehb"]
    assert {config(study, arm).steps for arm in study.arms} == {200_000}
    assert {config(study, arm).settings.target_update_interval for arm in study.arms} == {1_000}
    assert len(study.seeds) == 5 and list(study.environments) == ["MinAtar-Breakout"]
