"""AdaSAC, RandSAC and SAC as a user of Stable-Baselines3 would use them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn import DQN, SAC, AdaSAC, Hyperparameters, RandSAC, evaluate_policy, grid
from adaqn.agents.protocol import TargetUpdate
from adaqn.api import Model
from adaqn.base.errors import AllMembersDiverged, CheckpointError, UserError
from adaqn.training.callbacks import BaseCallback, EvalCallback
from adaqn.training.trainer import Trainer

SMALL = grid(Hyperparameters(hidden=(8,)), learning_rate=[1e-3, 3e-3, 1e-2])
QUICK: dict[str, Any] = {
    "learning_starts": 50,
    "batch_size": 16,
    "actor_hidden": "8",
    "selection_interval": 50,
    "buffer_size": 1_000,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[AdaSAC, Path]:
    """An agent and its run directory."""
    run_dir = tmp_path_factory.mktemp("sac") / "run"
    return AdaSAC("Pendulum-v1", SMALL, seed=3, **QUICK).learn(400, run_dir=run_dir), run_dir


def weights(model: Model) -> dict[str, np.ndarray]:
    return model.trainer.agent.to_arrays(model.trainer.state)[0]


def assert_equal_weights(one: Model, other: Model) -> None:
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def rows_of(run_dir: Path) -> list[dict[str, float]]:
    with (run_dir / "selection.csv").open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_learn_counts_steps_and_reports_members(trained: tuple[AdaSAC, Path]) -> None:
    model, _ = trained
    assert model.num_timesteps == 400 and model.trainer.updates == 350
    assert [report.hyperparameters for report in model.members] == list(SMALL)
    assert sum(report.selected for report in model.members) == pytest.approx(2.0)
    assert sum(report.selections for report in model.members) == 700


def test_selection_csv_has_a_row_per_interval_with_shares_of_pairs(trained: tuple[AdaSAC, Path]) -> None:
    model, run_dir = trained
    header = (run_dir / "selection.csv").read_text().splitlines()[0]
    assert header == "step,target,loss_0,loss_1,loss_2,acted_0,acted_1,acted_2,selected_0,selected_1,selected_2"
    rows = rows_of(run_dir)
    assert [row["step"] for row in rows] == [100, 150, 200, 250, 300, 350, 400]
    for row in rows:
        for name in ("acted", "selected"):
            shares = [row[f"{name}_{k}"] for k in range(3)]
            assert all(0.0 <= share <= 1.0 for share in shares)
            assert sum(shares) == pytest.approx(2.0, abs=1e-5)
        # In fiftieths, because the interval has 50 updates.
        assert row["selected_0"] * 50 == pytest.approx(round(row["selected_0"] * 50), abs=1e-4)
        assert row["target"] in (0, 1, 2)
    losses = [member.cumulated_loss for member in model.members]
    assert [rows[-1][f"loss_{k}"] for k in range(3)] == pytest.approx(losses, rel=1e-6)
    summed = 50 * sum(row["selected_1"] for row in rows)
    assert summed == pytest.approx(model.members[1].selections, abs=0.01)


def test_watching_changes_no_byte(trained: tuple[AdaSAC, Path], tmp_path: Path) -> None:
    model, run_dir = trained
    # Also with evaluations and predictions in between.
    evaluation = EvalCallback(gymnasium.make("Pendulum-v1"), eval_freq=130, n_eval_episodes=1)
    watched = AdaSAC("Pendulum-v1", SMALL, seed=3, **QUICK)

    def look(trainer: Trainer) -> None:
        watched.predict(np.zeros(3, np.float32), deterministic=False)

    watched.learn(400, run_dir=tmp_path / "run", log_interval=37, checkpoint_interval=90, callback=[evaluation, look])
    for name in ("selection.csv", "episodes.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (run_dir / name).read_bytes()
    assert_equal_weights(watched, model)


def test_another_seed_is_another_agent(trained: tuple[AdaSAC, Path]) -> None:
    other = AdaSAC("Pendulum-v1", SMALL, seed=4, **QUICK).learn(100)
    assert (weights(other)[".actor.parameters"] != weights(trained[0])[".actor.parameters"]).any()


def test_predict_is_within_the_box_and_deterministic_if_asked(trained: tuple[AdaSAC, Path]) -> None:
    model, _ = trained
    observations = np.random.default_rng(0).normal(0.0, 3.0, (50, 3)).astype(np.float32)
    actions, hidden = model.predict(observations, deterministic=True)
    assert hidden is None and actions.shape == (50, 1) and actions.dtype == np.float32
    assert (np.abs(actions) <= 2.0).all() and np.abs(actions).max() > 0.01
    again, _ = model.predict(observations, deterministic=True)
    assert np.array_equal(actions, again)
    # It is 2 tanh(mean), because the torque ranges from -2 to 2.
    agent = model.trainer.agent
    of_agent = agent.policy(model.trainer.state, observations, None, model.trainer.clock)
    np.testing.assert_allclose(actions, 2.0 * of_agent, atol=1e-6)
    single, _ = model.predict(observations[7], deterministic=True)
    assert single.shape == (1,)
    np.testing.assert_allclose(single, actions[7], rtol=1e-5, atol=1e-6)
    drawn, _ = model.predict(np.zeros((2000, 3), np.float32), deterministic=False)
    assert (np.abs(drawn) <= 2.0).all() and len(np.unique(drawn)) > 1900
    mode, _ = model.predict(np.zeros(3, np.float32), deterministic=True)
    below = (drawn < mode).mean()  # the mode is also the median
    assert below == pytest.approx(0.5, abs=0.05)


def test_save_and_load(trained: tuple[AdaSAC, Path], tmp_path: Path) -> None:
    model, _ = trained
    path = model.save(tmp_path / "pendulum")
    loaded = AdaSAC.load(path)
    assert isinstance(loaded, AdaSAC) and loaded.num_timesteps == 400
    assert_equal_weights(loaded, model)
    assert loaded.members == model.members and loaded.settings == model.settings
    observation = np.ones(3, np.float32)
    assert loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]
    loaded.learn(60, reset_num_timesteps=False)
    assert loaded.num_timesteps == 460
    assert loaded.trainer.updates == 10  # the buffer was empty and must fill first
    with pytest.raises(UserError, match=r"holds an agent of adasac, which SAC\.load does not read"):
        SAC.load(path)
    with pytest.raises(CheckpointError, match="was made for the observation space"):
        AdaSAC.load(path, env=gymnasium.make("MountainCarContinuous-v0"))


def test_interrupted_and_resumed_in_python(trained: tuple[AdaSAC, Path], tmp_path: Path) -> None:
    whole, run_dir = trained

    def stop_the_process(trainer: Trainer) -> None:
        if trainer.clock.step == 237:
            trainer.interrupt("SIGTERM")

    model = AdaSAC("Pendulum-v1", SMALL, seed=3, **QUICK)
    with pytest.raises(SystemExit, match="143"):
        model.learn(400, callback=stop_the_process, run_dir=tmp_path / "run")
    assert AdaSAC.from_run(tmp_path / "run").num_timesteps == 237
    resumed = AdaSAC.resume(tmp_path / "run")
    assert isinstance(resumed, AdaSAC)
    assert_equal_weights(resumed, whole)
    for name in ("episodes.csv", "selection.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (run_dir / name).read_bytes()


def test_callbacks_hear_steps_episodes_and_rows() -> None:
    class Listener(BaseCallback):
        steps = 0
        lengths = 0
        rows: list[int]

        def _on_training_start(self) -> None:
            self.rows = []

        def _on_step(self) -> bool:
            self.steps += 1
            return self.num_timesteps < 260

        def _on_episode(self, episode: Any) -> None:
            self.lengths += episode.length

        def _on_event(self, event: object) -> None:
            assert isinstance(event, TargetUpdate)
            self.rows.append(event.step)

    listener = Listener()
    model = AdaSAC("Pendulum-v1", SMALL, seed=3, **QUICK).learn(400, callback=listener)
    assert model.num_timesteps == 260 == listener.steps
    assert listener.rows == [100, 150, 200, 250]
    assert listener.lengths == 200


def test_variants_are_selection_rules_and_numbers_of_members() -> None:
    assert AdaSAC("Pendulum-v1").settings.selection == "lowest"
    assert len(AdaSAC("Pendulum-v1").members) == 4
    assert RandSAC("Pendulum-v1", SMALL).settings.selection == "random"
    one = SAC("Pendulum-v1", SMALL[:1])
    assert [report.hyperparameters for report in one.members] == [SMALL[0]] * 2
    for wrong, sentence in (
        (lambda: SAC("Pendulum-v1", SMALL), "exactly 2 equal members, but got 3"),
        (lambda: AdaSAC("Pendulum-v1", SMALL[:1]), "needs at least 2 members, but got 1"),
        (lambda: AdaSAC("CartPole-v1"), "must be a Box, but it is a Discrete; .* AdaDQN"),
        (lambda: DQN("Pendulum-v1"), "must be Discrete, but it is a Box; .* AdaSAC or AdaTD3"),
        (lambda: AdaSAC("Pendulum-v1", learning_rate=1e-3), "learning_rate is a hyperparameter of each member"),  # pyright: ignore[reportCallIssue]
        (lambda: RandSAC("Pendulum-v1", selection="lowest"), "selection='random', but got selection='lowest'"),
    ):
        with pytest.raises(UserError, match=sentence):
            wrong()


def test_an_environment_whose_actions_have_no_limits_is_told() -> None:
    env = gymnasium.make("Pendulum-v1")
    env.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(UserError, match=r"a Box with finite limits, but they are \[-inf\] and \[inf\]"):
        AdaSAC(env)


def test_when_all_critics_diverge_the_run_stops_and_names_them() -> None:
    members = grid(Hyperparameters(hidden=(8,)), learning_rate=[1e30, 1e31, 1e32])
    with pytest.raises(AllMembersDiverged, match=r"1e\+30.*1e\+31.*1e\+32"):
        AdaSAC("Pendulum-v1", members, **QUICK).learn(300)


def test_evaluation_plays_the_agent(trained: tuple[AdaSAC, Path]) -> None:
    env = gymnasium.make("Pendulum-v1")
    first, again = (evaluate_policy(trained[0], env, 2, deterministic=True, seed=5) for _ in range(2))
    env.close()
    assert list(first.returns) == list(again.returns)
    assert all(-2000.0 < total < 0.0 for total in first.returns)
