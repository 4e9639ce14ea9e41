from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboardX.record_writer import masked_crc32c

from adaqn import AdaDQN, Hyperparameters
from adaqn.base.errors import UserError
from adaqn.runs.recorders.progress import ProgressRecorder
from adaqn.runs.recorders.sinks import CsvSink, TensorBoardSink, WandbSink, require_wandb
from adaqn.training.observers import Observer


def csv_text(path: Path) -> list[str]:
    return (path / "progress.csv").read_bytes().decode().split("\n")


def test_csv_writes_empty_cells_for_what_has_no_value(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "progress.csv")
    sink.open(0)
    sink.write(10, {"time/total_timesteps": 10, "rollout/ep_rew_mean": None, "train/loss": 0.1})
    sink.write(20, {"time/total_timesteps": 20, "rollout/ep_rew_mean": 1.5, "train/loss": float("nan")})
    sink.close()
    assert csv_text(tmp_path) == [
        "time/total_timesteps,rollout/ep_rew_mean,train/loss",
        "10,,0.1",
        "20,1.5,nan",
        "",
    ]


def test_csv_takes_a_new_tag_as_a_new_column(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "progress.csv")
    sink.open(0)
    sink.write(10, {"time/total_timesteps": 10, "a": 1.0})
    sink.write(20, {"time/total_timesteps": 20, "b,c": 2.0})
    sink.write(30, {"time/total_timesteps": 30, "a": 3.0, "b,c": 4.0})
    assert csv_text(tmp_path) == ['time/total_timesteps,a,"b,c"', "10,1.0,", "20,,2.0", "30,3.0,4.0", ""]


def test_csv_of_a_resumed_run_loses_torn_and_later_rows(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_timesteps,a\n10,1.0\n20,2.0\n30,3.0\n40,4")
    sink = CsvSink(tmp_path / "progress.csv")
    sink.open(20)
    assert csv_text(tmp_path) == ["time/total_timesteps,a", "10,1.0", "20,2.0", ""]
    sink.write(25, {"time/total_timesteps": 25, "a": 2.5})
    assert csv_text(tmp_path) == ["time/total_timesteps,a", "10,1.0", "20,2.0", "25,2.5", ""]


def test_csv_survives_a_torn_header(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("time/total_ti")
    sink = CsvSink(tmp_path / "progress.csv")
    sink.open(0)
    sink.write(10, {"time/total_timesteps": 10})
    assert csv_text(tmp_path) == ["time/total_timesteps", "10", ""]


def tensorboard_events(directory: Path) -> list[Any]:
    event: Any = importlib.import_module("tensorboardX.proto.event_pb2").Event  # has no types
    events: list[Any] = []
    for name in sorted(os.listdir(directory)):
        data = (directory / name).read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            assert int.from_bytes(data[8:12], "little") == masked_crc32c(data[:8])
            events.append(event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return events


def test_tensorboard_gets_the_finite_scalars(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.open(0)
    sink.write(10, {"rollout/ep_rew_mean": None, "train/loss": 0.5, "ada/loss_1": float("inf")})
    sink.close()
    sink.close()
    values = [(e.step, v.tag, v.simple_value) for e in tensorboard_events(tmp_path) for v in e.summary.value]
    assert values == [(10, "train/loss", 0.5)]


def test_tensorboard_of_a_resumed_run_hides_later_steps(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.open(20)
    sink.close()
    starts = [e.step for e in tensorboard_events(tmp_path) if e.HasField("session_log")]
    assert starts == [21]


def test_wandb_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r'not installed: `pip install "adaqn\[wandb\]"`$'):
        require_wandb()


class FakeWandb:
    """Records the arguments of `init` and all logged metrics."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.mode = "online"
        self.logged_in = True

    def setup(self) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(mode=self.mode))

    def login(self, *, prompt: bool, verify: bool) -> bool:
        assert not prompt and not verify
        return self.logged_in

    def init(self, **options: object) -> FakeWandb:
        self.calls.append(options)
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.calls.append((step, metrics))

    def finish(self) -> None:
        self.calls.append("finish")


def test_wandb_without_a_login_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    fake.logged_in = False
    with pytest.raises(UserError, match=r"W&B has no login here: run `wandb login` first, or set WANDB_MODE=offline"):
        require_wandb()
    fake.mode = "offline"
    assert require_wandb() is fake and fake.calls == []


@pytest.mark.thorough
def test_wandb_itself_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": tmp_path, "NETRC": tmp_path / "netrc", "WANDB_CONFIG_DIR": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    code = "from adaqn.cli import main; raise SystemExit(main())"
    arguments = ["train", "--env", "CartPole-v1", "--steps", "2000", "--wandb-project", "p", "--run-dir", "run"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("adaqn: W&B has no login here")
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_logged_to_wandb_can_be_looked_at_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    model = AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], learning_starts=50)
    model.learn(120, run_dir=tmp_path / "run", wandb_project="p")
    assert fake.calls[-1] == "finish"
    fake.logged_in = False
    assert AdaDQN.from_run(tmp_path / "run").num_timesteps == AdaDQN.resume(tmp_path / "run").num_timesteps == 120
    with pytest.raises(UserError, match="W&B has no login here"):
        AdaDQN.resume(tmp_path / "run", steps=200)
    assert (tmp_path / "run/summary.json").exists()


def test_wandb_without_a_run_directory_is_refused() -> None:
    model = AdaDQN("CartPole-v1", [Hyperparameters(hidden=(8,))], learning_starts=50)
    with pytest.raises(UserError, match="logging to W&B is part of a run directory"):
        model.learn(120, wandb_project="p")
    assert model.num_timesteps == 0


@pytest.mark.parametrize("call", ["init", "log", "finish"])
def test_wandb_that_fails_is_done_without(
    call: str, tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("the network\nis gone")

    monkeypatch.setattr(fake, call, fails)
    sinks = [WandbSink(tmp_path / "wandb", "project", "lander", {}), CsvSink(tmp_path / "progress.csv")]
    with pytest.warns(RuntimeWarning) as warned:
        trainer.run(100, [ProgressRecorder(20, sinks)])
    assert [str(warning.message) for warning in warned] == [
        "cannot log to W&B: the network is gone; the run goes on without it"
    ]
    assert len(csv_text(tmp_path)) == 1 + 5 + 1


def test_tensorboard_on_a_full_disk_is_done_without(tmp_path: Path, trainer: Any) -> None:
    sinks = [TensorBoardSink(tmp_path / "tensorboard"), CsvSink(tmp_path / "progress.csv")]
    tensorboard: Any = sinks[0]

    class Fills(Observer):
        def on_start(self, trainer: Any) -> None:
            tensorboard.close()
            tensorboard._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115

    with pytest.warns(RuntimeWarning, match=r"cannot write .*tensorboard: No space left on device; the run goes on"):
        trainer.run(40, [ProgressRecorder(20, sinks), Fills()])
    assert len(csv_text(tmp_path)) == 1 + 2 + 1


def test_wandb_is_given_the_metrics_and_resumed_under_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    ids: list[str] = []
    for step, resume in ((0, None), (20, "allow"), (0, None)):
        fake.calls.clear()
        sink = WandbSink(tmp_path / "wandb", "project", "lander", {"seed": 3})
        sink.open(step)
        sink.write(step + 10, {"rollout/ep_rew_mean": None, "train/loss": 0.5})
        sink.close()
        options, *rest = fake.calls
        assert isinstance(options, dict)
        ids.append(options.pop("id"))
        assert options == {
            "dir": str(tmp_path),
            "project": "project",
            "name": "lander",
            "config": {"seed": 3},
            "resume": resume,
        }
        assert rest == [(step + 10, {"train/loss": 0.5}), "finish"]
    assert ids[0] == ids[1] != ids[2]


def test_wandb_itself_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    sink = WandbSink(tmp_path / "wandb", "project", "lander", {"seed": 3})
    sink.open(0)
    sink.write(10, {"train/loss": 0.5})
    sink.close()
    [log] = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    # `finish` returns before W&B's own process has written the file.
    deadline = time.monotonic() + 60
    while b"train/loss" not in (content := log.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert b"train/loss" in content
    assert b"lander" in content
