"""What a callback can read and record during training, and that reading changes nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn import DQN, SAC, BaseCallback, UserError
from adaqn.training.logger import Logger

SMALL = [{"hidden": [8]}]
QUICK: dict[str, Any] = {"learning_starts": 50, "target_update_interval": 50}


def test_the_last_value_or_the_mean_since_the_last_row_is_taken() -> None:
    logger = Logger()
    logger.record("a", 1)
    logger.record("a", np.float32(2.5))
    for value in (1.0, 2.0, 6.0):
        logger.record_mean("b", value)
    assert logger.waits and logger.take() == {"a": 2.5, "b": 3.0}
    assert not logger.waits and logger.take() == {}
    logger.record_mean("b", 5.0)
    assert logger.take() == {"b": 5.0}


def test_what_cannot_be_recorded_is_said_in_one_sentence() -> None:
    logger = Logger()
    logger.reserve(["time/fps"])
    with pytest.raises(UserError, match="'time/fps' is recorded by the run itself"):
        logger.record("time/fps", 3)
    with pytest.raises(UserError, match="recorded as 'a' must be a number, but got 'text'"):
        logger.record("a", "text")  # pyright: ignore[reportArgumentType]
    for name in ("", "a\nb", 3):
        with pytest.raises(UserError, match="under a name such as"):
            logger.record_mean(name, 1.0)  # pyright: ignore[reportArgumentType]
    assert not logger.waits


class Reader(BaseCallback):
    """Reads and records as much as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.initialized = 0
        self.seen: list[dict[str, Any]] = []

    def _init_callback(self) -> None:
        self.initialized += 1
        assert self.model is not None

    def _on_training_start(self) -> None:
        assert self.locals == {}

    def _on_step(self) -> bool:
        assert self.num_timesteps == self.n_calls * self.trainer.environments.count == self.model.num_timesteps  # pyright: ignore[reportAttributeAccessIssue]
        self.logger.record("custom/step", self.num_timesteps)
        assert self.training_env.get_wrapper_attr("gravity") == 9.8
        values = self.locals
        self.seen.append({name: np.copy(values[name]) for name in ("rewards", "dones", "actions", "new_obs")})
        assert len(values["infos"]) == self.trainer.environments.count
        for name in ("rewards", "dones", "new_obs", "actions"):  # copies: overwriting them must have no effect
            values[name][...] = 0
        return True

    def _on_training_end(self) -> None:
        self.logger.record("custom/end", -1.0)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_callbacks_read_the_last_step_and_change_nothing(n_envs: int, tmp_path: Path) -> None:
    reader = Reader()
    watched, alone = tmp_path / "watched", tmp_path / "alone"
    model = DQN("CartPole-v1", SMALL, n_envs=n_envs, **QUICK).learn(
        130, callback=reader, run_dir=watched, log_interval=40
    )
    DQN("CartPole-v1", SMALL, n_envs=n_envs, **QUICK).learn(130, run_dir=alone, log_interval=40)
    for name in ("episodes.csv", "selection.csv", "members.jsonl"):
        assert (watched / name).read_bytes() == (alone / name).read_bytes()
    assert reader.initialized == 1 and len(reader.seen) == 130 // n_envs
    rows = model.trainer.replay.rows(0, 130 // n_envs)
    np.testing.assert_array_equal([step["actions"] for step in reader.seen], rows["action"])
    np.testing.assert_array_equal([step["rewards"] for step in reader.seen], rows["reward"])
    np.testing.assert_array_equal([step["dones"] for step in reader.seen], rows["terminated"] | rows["truncated"])
    # What is acted on next is what the following transition begins with.
    np.testing.assert_array_equal([step["new_obs"] for step in reader.seen][:-1], rows["observation"][1:])


def test_what_callbacks_record_is_in_the_row_of_the_same_step(tmp_path: Path) -> None:
    DQN("CartPole-v1", SMALL, **QUICK).learn(120, callback=Reader(), run_dir=tmp_path / "run", log_interval=40)
    with (tmp_path / "run" / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [float(row["time/total_timesteps"]) for row in rows]
    assert steps == [40, 80, 120, 120]
    assert [row["custom/step"] for row in rows] == ["40.0", "80.0", "120.0", ""]
    assert [row["custom/end"] for row in rows] == ["", "", "", "-1.0"]


def test_a_name_of_the_run_itself_is_refused(tmp_path: Path) -> None:
    class Taken(BaseCallback):
        def _on_step(self) -> bool:
            self.logger.record("rollout/ep_rew_mean", 0.0)
            return True

    with pytest.raises(UserError, match="'rollout/ep_rew_mean' is recorded by the run itself"):
        DQN("CartPole-v1", SMALL, **QUICK).learn(60, callback=Taken(), run_dir=tmp_path / "run")


def test_continuous_actions_are_read_as_the_environment_took_them() -> None:
    taken: list[Any] = []

    class Listener(BaseCallback):
        def _on_step(self) -> bool:
            taken.append(self.locals["actions"])
            return True

    SAC("Pendulum-v1", learning_starts=30, policy_kwargs={"net_arch": [8]}).learn(31, callback=Listener())
    assert np.shape(taken) == (31, 1, 1)
    assert 1.0 < np.abs(taken).max() <= 2.0  # Pendulum's torque is within [-2, 2]
