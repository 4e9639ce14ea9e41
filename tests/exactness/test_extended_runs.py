"""A run that was given a later end is, to the byte, the run that had this end from the start and the same schedules."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from adaqn import AdaDQN
from adaqn.api import Model
from adaqn.base.errors import UserError
from adaqn.cli import main
from tests.exactness.test_kill_and_resume import adaqn, exact_contents
from tests.exactness.test_killed_at_borders import RUNS, contents

# ε_b falls until the end of the run, so that where the end is matters to every action before it.
DISCRETE = {
    "env": "CartPole-v1",
    "seed": "3",
    "learning-starts": "60",
    "buffer-size": "200",
    "batch-size": "8",
    "target-update-interval": "20",
    "exploration-steps": "50",
    "checkpoint-interval": "70",
    "eval-interval": "100",
    "eval-episodes": "1",
    "grid": "hidden=8,12,6x6",
}
FIRST, LAST = 300, 520  # a target update is due at both


def arguments(run_dir: Path, steps: int, **changes: str) -> list[str]:
    flags = DISCRETE | {"steps": str(steps), "run-dir": str(run_dir)} | changes
    return ["train", "--quiet", *(part for name, value in flags.items() for part in (f"--{name}", value))]


def resume(run_dir: Path, *more: str) -> int:
    return main(["resume", str(run_dir), "--quiet", *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that had the later end from the start, with ε_b as in the shorter run."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    assert main(arguments(run_dir, LAST, horizon=str(FIRST))) == 0
    return run_dir


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    run_dir = tmp_path / "run"
    assert main(arguments(run_dir, FIRST)) == 0
    return run_dir


def test_extended_is_the_run_with_this_end_and_the_former_horizon(finished: Path, whole: Path) -> None:
    short = exact_contents(finished)
    assert resume(finished, "--steps", str(LAST)) == 0
    extended = exact_contents(finished)
    assert extended == exact_contents(whole)
    assert extended["summary.json"] != short["summary.json"]
    assert (finished / "best_model.zip").read_bytes() == (whole / "best_model.zip").read_bytes()
    config = yaml.safe_load((finished / "config.yaml").read_text())
    assert (config["steps"], config["horizon"]) == (LAST, FIRST)


def test_the_horizon_matters(tmp_path: Path, whole: Path) -> None:
    run_dir = tmp_path / "run"
    assert main(arguments(run_dir, LAST)) == 0
    assert (run_dir / "episodes.csv").read_bytes() != (whole / "episodes.csv").read_bytes()


def test_extended_twice_is_extended_once(finished: Path, whole: Path) -> None:
    assert resume(finished, "--steps", "410") == 0
    assert resume(finished, "--steps", str(LAST)) == 0
    assert exact_contents(finished) == exact_contents(whole)


def test_stretched_schedules_are_repeated_by_the_configuration(finished: Path, whole: Path, tmp_path: Path) -> None:
    assert resume(finished, "--steps", str(LAST), "--stretch-schedules") == 0
    config = yaml.safe_load((finished / "config.yaml").read_text())
    assert config["horizon"] == [[0, FIRST], [FIRST + 1, LAST]]
    assert (finished / "selection.csv").read_bytes() != (whole / "selection.csv").read_bytes()
    again = tmp_path / "again"
    assert main(["train", "--quiet", "--config", str(finished / "config.yaml"), "--run-dir", str(again)]) == 0
    assert exact_contents(again) == exact_contents(finished)


@pytest.mark.thorough
def test_several_environments_that_step_beyond_the_end(tmp_path: Path) -> None:
    extended, whole = tmp_path / "run", tmp_path / "whole"
    assert main(arguments(extended, 301, **{"n-envs": "3"})) == 0
    assert resume(extended, "--steps", str(LAST)) == 0
    assert main(arguments(whole, LAST, horizon="301", **{"n-envs": "3"})) == 0
    assert exact_contents(extended) == exact_contents(whole)


def test_the_same_in_python(finished: Path, whole: Path) -> None:
    at_the_end = AdaDQN.resume(finished)
    model = AdaDQN.resume(finished, steps=LAST)
    assert (at_the_end.num_timesteps, model.num_timesteps) == (FIRST, LAST)
    assert exact_contents(finished) == exact_contents(whole)


def test_a_finished_run_is_loaded_at_its_end(finished: Path) -> None:
    before = exact_contents(finished)
    resumed, evaluated = Model.resume(finished), Model.from_run(finished)
    assert resumed.trainer.updates == evaluated.trainer.updates == FIRST - 60
    arrays, others = (model.trainer.agent.to_arrays(model.trainer.state)[0] for model in (resumed, evaluated))
    assert {name: array.tobytes() for name, array in arrays.items()} == {n: a.tobytes() for n, a in others.items()}
    assert exact_contents(finished) == before


def test_the_end_of_the_former_run_is_not_used_after_the_extension(finished: Path) -> None:
    assert Model.from_run(finished).num_timesteps == FIRST
    assert resume(finished, "--steps", str(LAST)) == 0
    assert Model.from_run(finished).num_timesteps == LAST


def test_an_earlier_end_than_what_is_done_is_refused(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert resume(finished, "--steps", "299") == 1
    assert capsys.readouterr().err == ("adaqn: the run has taken 300 steps already, so it cannot end at step 299\n")
    assert resume(finished, "--steps", "300") == 0  # nothing to do
    assert "is finished: nothing to resume" in capsys.readouterr().out
    assert resume(finished, "--stretch-schedules") == 1
    assert "give its steps" in capsys.readouterr().err
    with pytest.raises(UserError, match="steps must be a whole number"):
        AdaDQN.resume(finished, steps=0)
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


def test_steps_changed_by_hand_are_refused(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = finished / "config.yaml"
    (finished / "summary.json").unlink()
    config.write_text(config.read_text().replace("steps: 300\n", "steps: 520\n", 1))
    assert resume(finished) == 1
    assert "config.yaml was changed after the checkpoint was written (steps)" in capsys.readouterr().err


# While extending: right at the start, on the way, and while the configuration is replaced.
KILLS = [("step", "303"), ("step", "417"), ("replace", "1")]
MORE_KILLS = [("replace", "2"), ("fsync", "1"), ("writing", "1"), ("renaming", "2"), ("update", "250"), ("step", "520")]


@pytest.mark.parametrize(
    ("point", "number"),
    [KILLS[0], *(pytest.param(*kill, marks=pytest.mark.thorough) for kill in [*KILLS[1:], *MORE_KILLS])],
)
def test_killed_while_extending(point: str, number: str, finished: Path, whole: Path) -> None:
    steps = ["--steps", str(LAST)]
    killed = adaqn("resume", str(finished), "--quiet", *steps, before=[point, number], as_here=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # The first call of fsync comes before the run is made unfinished.
    assert (finished / "summary.json").exists() == ((point, number) == ("fsync", "1"))
    new_end_known = yaml.safe_load((finished / "config.yaml").read_text())["steps"] == LAST
    assert new_end_known == ((point, number) not in (("replace", "1"), ("fsync", "1")))
    assert resume(finished, *([] if new_end_known else steps)) == 0
    assert exact_contents(finished) == exact_contents(whole)


@pytest.mark.thorough
@pytest.mark.parametrize("stretch", [[], ["--stretch-schedules"]])
def test_a_killed_run_is_given_another_end(stretch: list[str], whole: Path, tmp_path: Path) -> None:
    run_dir, again = tmp_path / "run", tmp_path / "again"
    assert adaqn(*arguments(run_dir, FIRST), before=["step", "233"], as_here=True).returncode == -signal.SIGKILL
    assert resume(run_dir, "--steps", str(LAST), *stretch) == 0
    assert (exact_contents(run_dir) == exact_contents(whole)) == (not stretch)
    assert main(["train", "--quiet", "--config", str(run_dir / "config.yaml"), "--run-dir", str(again)]) == 0
    assert exact_contents(run_dir) == exact_contents(again)


# All families, each first ended where a generation or the next trial is due.
SHORT = {"adadqn": 60, "adasac": 50, "searl": 100, "random-search": 300, "cleared": 450, "dehb": 400, "at borders": 450}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_every_family_can_be_extended(name: str, tmp_path: Path) -> None:
    whole, run_dir, short = tmp_path / "whole", tmp_path / "run", str(SHORT[name])
    given = RUNS[name](whole)
    steps = given[given.index("--steps") + 1]
    assert main([*given, "--horizon", short]) == 0
    assert main([*RUNS[name](run_dir), "--steps", short]) == 0
    assert resume(run_dir, "--steps", steps) == 0
    found, expected = contents(run_dir), contents(whole)
    assert [name for name in expected if found[name] != expected[name]] == []
