"""The public classes as a user of Stable-Baselines3 would use them."""

from __future__ import annotations

import contextlib
import signal
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import adaqn
from adaqn import DQN, AdaDQN, AdaDQNMax, Hyperparameters, RandDQN, grid
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.protocol import Event, TargetUpdate
from adaqn.api import Model
from adaqn.base.errors import CheckpointError, UserError
from adaqn.training.callbacks import BaseCallback
from adaqn.training.trainer import Trainer

SMALL = grid(hidden=[(8,), (12, 8)])
QUICK: dict[str, Any] = {"learning_starts": 50, "target_update_interval": 50, "exploration_steps": 100}


@pytest.fixture(scope="module")
def trained() -> adaqn.AdaDQN:
    return AdaDQN("CartPole-v1", SMALL, seed=3, **QUICK).learn(600)


def weights(model: Model) -> list[np.ndarray]:
    arrays, _ = model.trainer.agent.to_arrays(model.trainer.state)
    return [array for _, array in sorted(arrays.items())]


def assert_equal_weights(one: Model, other: Model) -> None:
    for mine, theirs in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_learn_counts_steps_and_reports_members(trained: AdaDQN) -> None:
    assert trained.num_timesteps == 600
    reports = trained.members
    assert [report.hyperparameters for report in reports] == list(SMALL)
    assert sum(report.selected for report in reports) == pytest.approx(1.0)
    # Target updates at 100, 150, ..., 600, each of which resets the losses.
    assert trained.trainer.state.learning.record.selections.sum() == 11
    assert trained.trainer.updates == 550


def test_same_seed_same_agent_and_another_seed_another(trained: AdaDQN) -> None:
    assert_equal_weights(AdaDQN("CartPole-v1", SMALL, seed=3, **QUICK).learn(600), trained)
    other = AdaDQN("CartPole-v1", SMALL, seed=4, **QUICK).learn(600)
    assert any((mine != theirs).any() for mine, theirs in zip(weights(other), weights(trained), strict=True))


def test_predict_is_greedy_in_the_target_member(trained: AdaDQN) -> None:
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    actions, hidden = trained.predict(observations, deterministic=True)
    assert hidden is None
    learning = trained.trainer.state.learning
    agent = trained.trainer.agent
    assert isinstance(agent, DQNAgent)
    ensemble = agent.ensemble_of(SMALL)
    q = ensemble.values(ensemble.parameters(learning.ensemble), jnp.asarray(observations))[
        int(learning.selected.members[0])
    ]
    np.testing.assert_array_equal(actions, np.asarray(q).argmax(axis=1))
    single, _ = trained.predict(observations[7], deterministic=True)
    assert single == actions[7] and np.ndim(single) == 0


def test_predicting_does_not_change_training() -> None:
    watched, alone = (AdaDQN("CartPole-v1", SMALL, seed=1, **QUICK) for _ in range(2))

    def look(trainer: object) -> None:
        watched.predict(np.zeros(4, np.float32), deterministic=False)

    assert_equal_weights(watched.learn(300, callback=look), alone.learn(300))


def test_predict_without_determinism_explores_as_much_as_training_does() -> None:
    model = AdaDQN("CartPole-v1", SMALL, exploration_initial_eps=0.5, exploration_final_eps=0.5, **QUICK)
    observation = np.zeros((4000, 4), np.float32)
    greedy = model.predict(observation[:1], deterministic=True)[0][0]
    share = (model.predict(observation)[0] != greedy).mean()
    assert share == pytest.approx(0.25, abs=0.04)  # half of the random half


def test_save_and_load(trained: AdaDQN, tmp_path: Path) -> None:
    path = trained.save(tmp_path / "lander")
    assert path == tmp_path / "lander.zip"
    loaded = AdaDQN.load(tmp_path / "lander")
    assert isinstance(loaded, AdaDQN) and loaded.num_timesteps == 600
    assert_equal_weights(loaded, trained)
    assert loaded.members == trained.members
    loaded.learn(200, reset_num_timesteps=False)
    assert loaded.num_timesteps == 800


def test_load_checks_class_spaces_and_file(trained: AdaDQN, tmp_path: Path) -> None:
    path = trained.save(tmp_path / "a")
    with pytest.raises(UserError, match=r"holds an agent of adadqn, which DQN\.load does not read: use AdaDQN\.load$"):
        DQN.load(path)
    with pytest.raises(
        CheckpointError, match=r"was made for the observation space Box \(4,\) float32, but .* has Box \(6,\) float32$"
    ):
        AdaDQN.load(path, env=gymnasium.make("Acrobot-v1"))
    with pytest.raises(CheckpointError, match="there is no file"):
        AdaDQN.load(tmp_path / "missing")


def test_an_environment_object_is_used_as_it_is(tmp_path: Path) -> None:
    env = gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1").unwrapped, 13)
    model = AdaDQN(env, SMALL, **QUICK).learn(200)
    assert max(episode.length for episode in model.trainer.recent_episodes) == 13
    with pytest.raises(UserError, match="cannot be made a second time"):
        model.make_env()
    model.save(tmp_path / "object")
    alone = AdaDQN.load(tmp_path / "object")
    assert_equal_weights(alone, model)
    with pytest.raises(UserError, match="cannot be made a second time; pass another such environment with env="):
        alone.learn(100, reset_num_timesteps=False)
    assert_equal_weights(AdaDQN.load(tmp_path / "object", env=env), model)


def test_learn_again_resets_the_clock_or_goes_on() -> None:
    model = AdaDQN("CartPole-v1", SMALL, **QUICK).learn(300)
    model.learn(100, reset_num_timesteps=False)
    assert model.num_timesteps == 400
    # Schedules ended with the first run and keep their final values.
    agent = model.trainer.agent
    assert isinstance(agent, DQNAgent) and agent.exploration(model.trainer.clock) == (0.01, 0.01)
    model.learn(200)
    assert model.num_timesteps == 200
    assert model.trainer.clock.horizon == 200


def test_variants_are_selection_rules_and_numbers_of_members() -> None:
    assert AdaDQN("CartPole-v1").settings.selection == "lowest"
    assert RandDQN("CartPole-v1").settings.selection == "random"
    assert AdaDQNMax("CartPole-v1").settings.selection == "highest"
    assert len(DQN("CartPole-v1").members) == 1
    with pytest.raises(UserError, match="exactly one member, but got 2"):
        DQN("CartPole-v1", SMALL)


def test_without_run_dir_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    AdaDQN("CartPole-v1", SMALL, **QUICK).learn(120)
    assert list(tmp_path.iterdir()) == []


def test_run_dir_is_written_and_not_overwritten(tmp_path: Path) -> None:
    AdaDQN("CartPole-v1", SMALL, **QUICK).learn(300, run_dir=tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.yaml", "episodes.csv", "selection.csv", "members.jsonl", "best_model.csv", "best_model.zip",
        "progress.csv", "tensorboard", "checkpoint", "summary.json",
    }  # fmt: skip
    again = AdaDQN("CartPole-v1", SMALL, **QUICK)
    with pytest.raises(UserError, match=r"is not empty .*`adaqn resume .*/run` continues .*in Python force=True"):
        again.learn(300, run_dir=tmp_path / "run")
    with pytest.raises(UserError, match=r"is not empty .*choose another directory, .*beside these files$"):
        again.learn(300, run_dir=tmp_path)
    with pytest.raises(UserError, match=r"run is a run directory, .*use AdaDQN\.from_run .*or load .*best_model\.zip$"):
        AdaDQN.load(tmp_path / "run")
    again.learn(300, run_dir=tmp_path / "run", force=True)


def test_callbacks_hear_steps_episodes_and_target_updates() -> None:
    class Listener(BaseCallback):
        steps = 0
        lengths = 0
        targets: list[int]

        def _on_training_start(self) -> None:
            self.targets = []

        def _on_step(self) -> bool:
            self.steps += 1
            return self.num_timesteps < 400

        def _on_episode(self, episode: object) -> None:
            self.lengths += episode.length  # type: ignore[attr-defined]

        def _on_event(self, event: object) -> None:
            assert isinstance(event, TargetUpdate)
            self.targets.append(event.step)

    listener = Listener()
    model = AdaDQN("CartPole-v1", SMALL, **QUICK).learn(600, callback=listener)
    assert model.num_timesteps == 400 == listener.steps
    assert listener.targets == [100, 150, 200, 250, 300, 350, 400]
    assert 0 < listener.lengths <= 400


def test_several_environments_step_together() -> None:
    model = AdaDQN("CartPole-v1", SMALL, n_envs=3, **QUICK).learn(300)
    assert model.num_timesteps == 300
    assert model.trainer.updates == 250  # one per step after the first 50, as with one environment
    assert model.trainer.replay.added == 100


def test_a_member_alone_uses_its_own_hyperparameters() -> None:
    one = DQN("CartPole-v1", [Hyperparameters(hidden=(8,), learning_rate=0.0)], **QUICK)
    before = weights(one)
    after = weights(one.learn(200))
    parameters = [i for i, array in enumerate(before) if array.dtype == np.float32 and array.size > 20]
    assert parameters
    # Adam's moments change, the parameters (twice: online and target) do not.
    moved = [i for i in parameters if (before[i] != after[i]).any()]
    assert len(parameters) - len(moved) == 2


def test_interrupted_in_python_the_agent_can_be_used_and_goes_on(tmp_path: Path) -> None:
    model = AdaDQN("CartPole-v1", SMALL, **QUICK)

    def press_control_c(trainer: Trainer) -> None:
        if trainer.clock.step == 150:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        model.learn(300, callback=press_control_c)
    assert model.num_timesteps == 150
    model.save(tmp_path / "interrupted")
    model.learn(150, reset_num_timesteps=False)
    assert_equal_weights(model, AdaDQN("CartPole-v1", SMALL, **QUICK).learn(300))


def test_a_second_run_counts_from_zero_in_new_episodes(tmp_path: Path) -> None:
    model = AdaDQN("CartPole-v1", SMALL, **QUICK).learn(300)
    model.learn(100)
    trainer = model.trainer
    assert sum(episode.length for episode in trainer.recent_episodes) <= 100
    assert all(episode.length <= episode.step for episode in trainer.recent_episodes)
    assert trainer.updates == 50 and trainer.episodes == len(trainer.recent_episodes)
    assert trainer.replay.added == 400
    with pytest.raises(UserError, match="has already been trained"):
        model.learn(100, run_dir=tmp_path / "run")
    assert model.num_timesteps == 100 and not (tmp_path / "run").exists()


def test_resume_and_from_run_in_python(tmp_path: Path) -> None:
    def env() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1").unwrapped, 50)

    whole = AdaDQN(env(), SMALL, **QUICK).learn(400, run_dir=tmp_path / "whole")

    def stop_the_process(trainer: Trainer) -> None:
        if trainer.clock.step == 230:
            trainer.interrupt("SIGTERM")

    with pytest.raises(SystemExit, match="143"):
        AdaDQN(env(), SMALL, **QUICK).learn(400, callback=stop_the_process, run_dir=tmp_path / "run")
    looked_at = AdaDQN.from_run(tmp_path / "run", env=env())
    assert looked_at.num_timesteps == 230
    with pytest.raises(UserError, match="pass env="):
        AdaDQN.resume(tmp_path / "run")
    assert_equal_weights(AdaDQN.resume(tmp_path / "run", env=env()), whole)
    for name in ("episodes.csv", "selection.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("stops_at", [230, 400], ids=["interrupted", "finished"])
@pytest.mark.parametrize("n_envs", [1, 2])
def test_from_the_agent_of_a_run_training_goes_on_in_new_episodes(stops_at: int, n_envs: int, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"

    def stop_the_process(trainer: Trainer) -> None:
        if trainer.clock.step == stops_at < 400:
            trainer.interrupt("SIGTERM")

    made = AdaDQN("CartPole-v1", SMALL, n_envs=n_envs, seed=1, **QUICK)
    with contextlib.suppress(SystemExit):
        made.learn(400, callback=stop_the_process, run_dir=run_dir)
    files = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    model = AdaDQN.from_run(run_dir)
    trainer, updates, episodes = model.trainer, made.trainer.updates, made.trainer.episodes
    assert (model.num_timesteps, trainer.updates, trainer.replay.added) == (stops_at, updates, 0)
    positions = made.trainer.environments.position()
    assert all(position.length > 0 for position in positions), "every environment must be within an episode"
    # The buffer is empty, so learning waits until it holds as much as at the start of a run.
    model.learn(QUICK["learning_starts"], reset_num_timesteps=False)
    assert (model.num_timesteps, trainer.updates) == (stops_at + 50, updates)
    assert trainer.replay.added * n_envs == 50
    model.learn(50, reset_num_timesteps=False)
    assert (model.num_timesteps, trainer.updates) == (stops_at + 100, updates + 50)
    later = [episode for episode in trainer.recent_episodes if episode.step > stops_at]
    assert len(later) == trainer.episodes - episodes > 0
    assert all(episode.length * n_envs <= episode.step - stops_at for episode in later)
    # The run is unchanged and can be resumed.
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == files
    assert AdaDQN.resume(run_dir).num_timesteps == 400


def test_a_loaded_agent_fills_its_buffer_before_it_learns(trained: AdaDQN, tmp_path: Path) -> None:
    loaded = AdaDQN.load(trained.save(tmp_path / "agent"))
    loaded.learn(QUICK["learning_starts"] + 10, reset_num_timesteps=False)
    assert loaded.trainer.updates == 10


def test_save_replaces_an_agent_and_nothing_else(trained: AdaDQN, tmp_path: Path) -> None:
    first = trained.save(tmp_path / "agent")
    assert trained.save(tmp_path / "agent") == first
    assert AdaDQN.load(first).num_timesteps == trained.num_timesteps
    other = tmp_path / "weights.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("policy.pth", b"of some other library")
    (tmp_path / "link.zip").symlink_to(tmp_path / "nowhere")
    before = other.read_bytes()
    for name in ("weights", "link"):
        with pytest.raises(UserError, match=rf"{name}.zip exists, but is no agent that adaqn saved, so it is not over"):
            trained.save(tmp_path / name)
    assert other.read_bytes() == before
    assert AdaDQN.load(trained.save(other, force=True)).num_timesteps == trained.num_timesteps


def test_export_replaces_a_policy_and_nothing_else(trained: AdaDQN, tmp_path: Path) -> None:
    assert trained.export(tmp_path / "policy") == trained.export(tmp_path / "policy")
    np.savez(tmp_path / "data.npz", mine=np.arange(3))
    before = (tmp_path / "data.npz").read_bytes()
    with pytest.raises(UserError, match=r"data.npz exists, but is no policy that adaqn exported, so it is not over"):
        trained.export(tmp_path / "data")
    assert (tmp_path / "data.npz").read_bytes() == before
    trained.export(tmp_path / "data", force=True)
    assert (tmp_path / "data.npz").read_bytes() == (tmp_path / "policy.npz").read_bytes()


def test_load_for_another_environment_object(tmp_path: Path) -> None:
    model = AdaDQN("CartPole-v1", SMALL, env_kwargs={"max_episode_steps": 30}, n_envs=2, **QUICK)
    path = model.save(tmp_path / "agent")
    assert AdaDQN.load(path, env=gymnasium.make("CartPole-v1")).trainer.environments.count == 1
    loaded = AdaDQN.load(path).learn(60)
    assert loaded.trainer.environments.count == 2
    assert max(episode.length for episode in loaded.trainer.recent_episodes) <= 30


def test_members_are_reported_with_the_losses_that_they_were_compared_by() -> None:
    last: list[TargetUpdate] = []

    class Listener(BaseCallback):
        def _on_event(self, event: Event) -> None:
            assert isinstance(event, TargetUpdate)
            last[:] = [event]

    model = AdaDQN("CartPole-v1", SMALL, **QUICK).learn(300, callback=Listener())
    losses = tuple(member.cumulated_loss for member in model.members)
    assert losses == last[0].cumulated_loss and min(losses) > 0.0


def test_a_diverged_member_is_warned_of_once() -> None:
    members = [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(8,), optimizer="sgd", learning_rate=1e30)]
    with pytest.warns(RuntimeWarning, match="member 1 diverged") as warned:
        AdaDQN("CartPole-v1", members, **QUICK).learn(400)
    assert len(warned) == 1


def test_mistakes_of_someone_who_knows_stable_baselines() -> None:
    with pytest.raises(UserError, match=r"learning_rate is a hyperparameter of each member: .*grid\(learning_rate="):
        AdaDQN("CartPole-v1", learning_rate=1e-3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(UserError, match="selection='random', but got selection='lowest'"):
        RandDQN("CartPole-v1", selection="lowest")
    image = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    env = gymnasium.wrappers.TransformObservation(
        gymnasium.make("CartPole-v1"), lambda _: np.zeros((8, 8, 3), np.uint8), image
    )
    assert [layer.channels for layer in DQN(env).members[0].hyperparameters.convolutions] == [16]
