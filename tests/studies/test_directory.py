"""How far a run is, by its small files, and what a study refuses to do to runs that have begun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.lock import RunLock
from adaqn.studies.directory import RunState, StudyDirectory
from adaqn.studies.study import RunKey
from tests.studies.tiny import SEARCHING, begin, finish, tiny

KEY = RunKey("adadqn", "CartPole-v1", 0)


@pytest.fixture
def directory(tmp_path: Path) -> StudyDirectory:
    return StudyDirectory(tmp_path / "study")


def test_the_state_is_told_by_small_files_alone(directory: StudyDirectory) -> None:
    study = tiny()
    assert directory.state(KEY) == RunState("missing")
    path = begin(directory, study, KEY)
    assert directory.state(KEY) == RunState("interrupted")
    (path / "progress.csv").write_text(
        "time/total_timesteps,time/time_elapsed,train/loss\n100,1.5,0.25\n250,3.5,\n300,9"  # the last was cut off
    )
    assert directory.state(KEY) == RunState("interrupted", 250, 3.5)
    lock = RunLock(path)
    lock.acquire()
    assert directory.state(KEY) == RunState("running", 250, 3.5)
    lock.release()
    directory.mark_failed(KEY, "no more memory")
    assert directory.state(KEY) == RunState("failed", 250, 3.5, "no more memory")
    directory.clear_failure(KEY)
    assert directory.state(KEY).status == "interrupted"
    finish(directory, study, KEY)
    assert directory.state(KEY) == RunState("finished", 400, 2.0)


def test_a_run_that_failed_before_it_began_leaves_its_directory_free(directory: StudyDirectory) -> None:
    directory.mark_failed(KEY, "no such environment")
    assert directory.state(KEY).status == "failed"
    assert not directory.run(KEY).exists()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (
            {"run": {"settings": {"gamma": 0.9}}},
            "arms.adadqn.settings.gamma was 0.99 and is 0.9; arms.dqn-8.settings.gamma was 0.99 and is 0.9;",
        ),
        ({"run": {"steps": 500}}, "arms.adadqn.steps was 400 and is 500"),
        ({"seeds": [1]}, "seeds.0 is gone (it was 'reported on')"),
        ({"seeds": [1], "tuning_seeds": [0]}, "seeds.0 is gone"),
        ({"arms": {"dqn": {"algo": "dqn", "member": "each"}}}, "arms.adadqn.algo is gone (it was 'adadqn')"),
        ({"environments": {"CartPole-v1": {"env": "CartPole-v0"}}}, "environments.CartPole-v1.env was 'CartPole-v1'"),
    ],
)
def test_a_changed_definition_is_refused_with_the_difference(
    directory: StudyDirectory, changes: dict[str, Any], difference: str
) -> None:
    before = tiny()
    directory.freeze(before)
    text = directory.definition.read_bytes()
    directory.check(tiny(**changes))  # no run has begun
    for key in (KEY, RunKey("dqn-8", "CartPole-v1", 0)):
        finish(directory, before, key)
    with pytest.raises(UserError) as caught:
        directory.check(tiny(**changes))
    assert difference in str(caught.value)
    assert "is new ({})" not in str(caught.value)
    assert "2 of its runs have begun" in str(caught.value)
    assert directory.definition.read_bytes() == text


def test_what_is_added_changes_no_run_that_has_begun(directory: StudyDirectory) -> None:
    before = tiny()
    directory.freeze(before)
    finish(directory, before, KEY)
    after = tiny(
        seeds=5,
        environments=["CartPole-v1", "Acrobot-v1"],
        arms={"adadqn": {}, "dqn": {"algo": "dqn", "member": "each"}, "randdqn": {"algo": "randdqn"}},
        choices={"grid-search": ["dqn"]},
        tuning_seeds=[100],
    )
    directory.check(after)
    directory.freeze(after)
    assert directory.read() == after


def test_only_what_has_begun_is_protected(directory: StudyDirectory) -> None:
    before = tiny()
    directory.freeze(before)
    finish(directory, before, KEY)
    # An arm without runs may change, and so may how runs are watched, and the number of threads.
    changed = {
        "adadqn": {"log_interval": 10, "threads": 2},
        "dqn": {"algo": "dqn", "member": "each", "settings": {"gamma": 0.5}},
    }
    directory.check(tiny(arms=changed))


def test_a_copied_run_with_another_configuration_is_refused(directory: StudyDirectory) -> None:
    study = tiny()
    finish(directory, study, KEY, settings={"learning_starts": 50, "target_update_interval": 25})
    with pytest.raises(UserError, match=r"settings\.target_update_interval was 25 and is 50"):
        directory.check(study)
    finish(directory, study, KEY, steps=300)
    with pytest.raises(UserError, match=r"steps was 300 and is 400"):
        directory.check(study)


def test_a_run_of_an_older_version_without_a_new_setting_is_the_same(directory: StudyDirectory) -> None:
    study = tiny()
    path = finish(directory, study, KEY)
    values = yaml.safe_load((path / "config.yaml").read_text())
    del values["settings"]["double_q"], values["settings"]["mutations"]
    (path / "config.yaml").write_text(yaml.safe_dump(values))
    directory.freeze(study)
    frozen = yaml.safe_load(directory.definition.read_text())
    del frozen["arms"]["adadqn"]["settings"]["double_q"]
    directory.definition.write_text(yaml.safe_dump(frozen))
    directory.check(study)


def test_members_that_a_space_gives_are_those_of_the_seed(directory: StudyDirectory) -> None:
    settings = {"population": 2, "learning_starts": 50}
    config = {"env": "CartPole-v1", "steps": 400, "space": "vectors", "settings": settings}
    study = tiny(config=config, arms={"adadqn": {}})
    assert study.arms["adadqn"]["members"] is None
    path = finish(directory, study, KEY)
    directory.check(study)
    other = finish(directory, study, RunKey("adadqn", "CartPole-v1", 1))
    values = yaml.safe_load((path / "config.yaml").read_text())
    (other / "config.yaml").write_text(yaml.safe_dump({**values, "seed": 1}))
    with pytest.raises(UserError, match=r"members\[0\]"):
        directory.check(study)


def test_a_single_set_that_sac_trains_twice_is_the_run_of_the_study(directory: StudyDirectory) -> None:
    config = {"env": "Pendulum-v1", "steps": 2000, "algo": "adasac", "grid": {"learning_rate": [1e-3, 1e-4]}}
    study = tiny(config=config, arms={"sac": {"algo": "sac", "member": "each"}})
    key = RunKey("sac-lr-1e-3", "Pendulum-v1", 0)
    path = finish(directory, study, key)
    values = yaml.safe_load((path / "config.yaml").read_text())
    assert len(study.arms[key.arm]["members"]) == 1 and len(values["members"]) == 2
    directory.check(study)
    values["members"] = [{**member, "learning_rate": 3e-3} for member in values["members"]]
    (path / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"members\[0\].learning_rate was 0.003 and is 0.001"):
        directory.check(study)


@pytest.mark.parametrize("algo", ["random-search", "dehb"])
def test_a_search_of_the_default_space_is_the_run_of_the_study(directory: StudyDirectory, algo: str) -> None:
    lengths = {"trial_steps": 200} if algo == "random-search" else {"min_trial_steps": 100, "max_trial_steps": 200}
    search = {"algo": algo, "settings": {"learning_starts": 50, **lengths}}
    study = tiny(config={"env": "CartPole-v1", "steps": 400}, arms={"search": search})
    key = RunKey("search", "CartPole-v1", 0)
    path = finish(directory, study, key)
    values = yaml.safe_load((path / "config.yaml").read_text())
    assert study.arms["search"]["space"] is None and values["space"]["hidden"]["neurons"] == [25, 200]
    directory.check(study)
    values["space"]["hidden"]["neurons"] = [25, 100]
    (path / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"space.hidden.neurons was \[25, 100\] and is \[25, 200\]"):
        directory.check(study)


def trial(units: int, fidelity: int, fitness: float | None) -> str:
    member = Hyperparameters(hidden=(units,)).to_dict()
    return json.dumps({"hyperparameters": member, "fidelity": fidelity, "fitness": fitness}) + "\n"


def test_the_chosen_trial_is_the_best_of_the_longest_on_the_tuning_seeds(directory: StudyDirectory) -> None:
    study = tiny(**SEARCHING)
    best, first, second = (
        RunKey(arm, "CartPole-v1", seed) for arm, seed in (("best", 5), ("search", 0), ("search", 1))
    )
    path = finish(directory, study, first)
    (path / "trials.jsonl").write_text(trial(26, 100, 40.0) + trial(27, 50, 90.0) + trial(28, 100, None))
    assert not directory.is_ready(study, best) and directory.is_ready(study, second)
    with pytest.raises(UserError, match="is known when search/CartPole-v1/1 are finished"):
        directory.config(study, best)
    path = finish(directory, study, second)
    (path / "trials.jsonl").write_text(trial(29, 100, 60.0) + trial(30, 100, 50.0))
    # What the seed that is reported on has found does not count.
    path = finish(directory, study, RunKey("search", "CartPole-v1", 5))
    (path / "trials.jsonl").write_text(trial(31, 100, 99.0))
    assert directory.is_ready(study, best)
    config = directory.config(study, best)
    assert [member.hidden for member in config.members] == [(29,)]
    assert (config.algo, config.seed, config.steps) == ("dqn", 5, 300)
    finish(directory, study, best, members=[Hyperparameters(hidden=(29,)).to_dict()])
    directory.check(study)
    finish(directory, study, best, members=[Hyperparameters(hidden=(30,)).to_dict()])
    with pytest.raises(UserError, match=r"members\[0\]\.hidden was \[30\] and is \[29\]"):
        directory.check(study)


def test_a_trial_that_was_chosen_is_not_chosen_anew_on_more_seeds(directory: StudyDirectory) -> None:
    study = tiny(**SEARCHING)
    directory.freeze(study)
    for seed in (0, 1):
        path = finish(directory, study, RunKey("search", "CartPole-v1", seed))
        (path / "trials.jsonl").write_text(trial(29, 100, 60.0))
    more = tiny(**{**SEARCHING, "tuning_seeds": [0, 1, 2]})
    directory.check(more)  # nothing has been trained of the choice
    finish(directory, study, RunKey("best", "CartPole-v1", 5), members=[Hyperparameters(hidden=(29,)).to_dict()])
    directory.check(study)
    with pytest.raises(UserError, match=r"retrained\.best\.chosen_on was \[0, 1\] and is \[0, 1, 2\]"):
        directory.check(more)


def test_discarding_takes_only_the_checkpoint_of_a_finished_run(directory: StudyDirectory) -> None:
    study = tiny()
    path = begin(directory, study, KEY)
    (path / "checkpoint").mkdir()
    directory.discard_checkpoint(KEY)
    assert (path / "checkpoint").is_dir()
    finish(directory, study, KEY)
    directory.discard_checkpoint(KEY)
    assert sorted(file.name for file in path.iterdir()) == ["config.yaml", "episodes.csv", "summary.json"]


def test_a_directory_without_a_study_says_so(directory: StudyDirectory) -> None:
    with pytest.raises(UserError, match=r"it has no study\.yaml"):
        directory.read()
