"""The end of a run is read before the directory is locked; what another process did in between is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from adaqn.api import Model
from adaqn.base.errors import UserError
from tests.runs.killed import Killed, contents, kill_at, train

REFUSED = r"^another process has continued the run in .*, and nothing was changed: resume it again$"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed at step 250, of 400."""
    run_dir = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(Killed):
        train(run_dir, kill_at(250))
    return run_dir


@pytest.fixture
def run_dir(killed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(killed, tmp_path / "run")


def meanwhile(monkeypatch: pytest.MonkeyPatch, other: Callable[[], Any]) -> None:
    """Let something happen after the end was read and before the lock is taken."""
    made = Model.from_config

    def delayed(*arguments: Any) -> Model:
        monkeypatch.setattr(Model, "from_config", made)
        other()
        return made(*arguments)

    monkeypatch.setattr(Model, "from_config", delayed)


@pytest.mark.parametrize("steps", [450, 500, 550, None])
def test_an_end_that_another_process_has_changed_is_not_written_back(
    steps: int | None, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after: dict[str, Any] = {}

    def extend() -> None:
        Model.resume(run_dir, steps=500)
        after.update(contents(run_dir))

    meanwhile(monkeypatch, extend)
    with pytest.raises(UserError, match=REFUSED):
        Model.resume(run_dir, steps=steps)
    assert contents(run_dir) == after
    assert yaml.safe_load((run_dir / "config.yaml").read_text())["steps"] == 500


def test_schedules_are_not_stretched_from_a_step_that_is_past(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: Model.resume(run_dir))
    with pytest.raises(UserError, match=REFUSED):
        Model.resume(run_dir, steps=500, stretch_schedules=True)
    Model.resume(run_dir, steps=500, stretch_schedules=True)
    assert yaml.safe_load((run_dir / "config.yaml").read_text())["horizon"] == [[0, 400], [401, 500]]


def test_a_run_that_only_went_on_is_resumed_where_it_is(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def go_on() -> None:
        with pytest.raises(Killed):
            Model.resume(run_dir, callback=kill_at(350))

    meanwhile(monkeypatch, go_on)
    assert Model.resume(run_dir).num_timesteps == 400
