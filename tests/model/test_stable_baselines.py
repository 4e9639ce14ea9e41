"""Code written for Stable-Baselines3 works, or a one-sentence error says what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import adaqn
from adaqn import DQN, SAC, TD3, AdaDQN, AdaSAC, UserError, evaluate_policy
from adaqn.base.errors import CheckpointError
from adaqn.base.snapshot import Snapshot, read_snapshot, write_snapshot

QUICK: dict[str, Any] = {"learning_starts": 50, "target_update_interval": 50}
SMALL = [{"hidden": [8]}]


@pytest.mark.parametrize(
    ("positional", "keywords"),
    [
        (("MlpPolicy", "CartPole-v1"), {}),
        (("MlpPolicy",), {"env": "CartPole-v1"}),
        ((), {"policy": "MlpPolicy", "env": "CartPole-v1"}),
        (("CnnPolicy", "CartPole-v1"), {"verbose": 1}),
    ],
)
def test_a_policy_name_is_pointed_out(positional: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^DQN has no policy argument: write DQN\('CartPole-v1'\); "):
        DQN(*positional, **keywords)
    with pytest.raises(UserError, match=r"write AdaDQN\(env\)"):
        AdaDQN("MlpPolicy", gymnasium.make("CartPole-v1"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("model", "misspelt", "meant"),
    [(DQN, "learning_rat", "learning_rate"), (DQN, "policy_kwarg", "policy_kwargs"), (AdaDQN, "mebers", "members")],
)
def test_all_arguments_of_a_class_are_suggested(model: Any, misspelt: str, meant: str) -> None:
    with pytest.raises(UserError, match=rf"^unknown setting '{misspelt}'; did you mean '{meant}'\?"):
        model("CartPole-v1", **{misspelt: None})


@pytest.mark.parametrize(
    ("argument", "given", "instead"),
    [
        ("verbose", 1, "progress_bar=True"),
        ("tensorboard_log", "./logs", r"pass run_dir='\./logs' to learn"),
        ("device", "cuda", "JAX_PLATFORMS"),
        ("exploration_fraction", 0.2, r"exploration_steps=int\(0\.2 \* 100_000\)"),
        ("optimize_memory_usage", True, "leave it out"),
        ("stats_window_size", 50, "last 100 episodes"),
        ("max_grad_norm", 10, "clipping is a hyperparameter of each member"),
        ("replay_buffer_class", dict, "leave it out"),
        ("replay_buffer_kwargs", {}, "buffer_size="),
        ("action_noise", None, "exploration_initial_eps="),
        ("_init_setup_model", True, "leave it out"),
        ("tau", 1.0, "target_update_interval"),
        ("ent_coef", "auto", "SAC family"),
        ("use_sde", True, "leave it out"),
    ],
)
def test_arguments_that_do_not_exist_here_say_what_to_write(argument: str, given: Any, instead: str) -> None:
    with pytest.raises(UserError, match=f"^DQN has no argument {argument}: .*{instead}"):
        DQN("CartPole-v1", **{argument: given})


def test_values_that_do_not_exist_here_say_what_to_write() -> None:
    with pytest.raises(UserError, match=r"got \(4, 'step'\): write train_freq=4"):
        DQN("CartPole-v1", train_freq=(4, "step"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"got -1: .* the value of train_freq"):
        DQN("CartPole-v1", gradient_steps=-1)
    with pytest.raises(UserError, match=r"must be a number, but got a function: .* schedule="):
        DQN("CartPole-v1", learning_rate=lambda left: left * 1e-3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"must be a number, but got a function: .* not supported"):
        SAC("Pendulum-v1", learning_rate=lambda left: left * 1e-3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"SAC has no argument target_update_interval: .* tau="):
        SAC("Pendulum-v1", target_update_interval=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(UserError, match=r"SAC has no argument exploration_fraction: .* does not explore with ε"):
        SAC("Pendulum-v1", exploration_fraction=0.1)  # pyright: ignore[reportCallIssue]


class NormalActionNoise:
    """A class with the name of Stable-Baselines3's."""


def test_exploration_noise_is_a_number_for_td3_and_nothing_for_others() -> None:
    assert TD3("Pendulum-v1", action_noise=0.3).settings.action_noise == 0.3
    with pytest.raises(UserError, match=r"but got NormalActionNoise: write action_noise=0\.1$"):
        TD3("Pendulum-v1", action_noise=NormalActionNoise())  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"but got None: write action_noise=0\.0$"):
        TD3("Pendulum-v1", action_noise=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"^SAC has no argument action_noise: leave it out; .*ent_coef="):
        SAC("Pendulum-v1", action_noise=0.1)  # pyright: ignore[reportCallIssue]


def test_ensembles_are_pointed_to_their_members() -> None:
    with pytest.raises(UserError, match=r"AdaSAC has no argument policy_kwargs: .* members=grid\(hidden="):
        AdaSAC("Pendulum-v1", policy_kwargs={"net_arch": [64, 64]})  # pyright: ignore[reportCallIssue]
    with pytest.raises(UserError, match=r"members=grid\(learning_rate=\[\.\.\.\]\)"):
        AdaSAC("Pendulum-v1", learning_rate=1e-3)  # pyright: ignore[reportCallIssue]


class Tanh:
    """A class with PyTorch's name."""


def test_learning_rate_and_layers_simply_work_for_dqn() -> None:
    default = DQN("CartPole-v1").members[0].hyperparameters
    (member,) = DQN(
        "CartPole-v1", learning_rate=7e-3, policy_kwargs={"net_arch": [9, 5], "activation_fn": Tanh}
    ).members
    assert member.hyperparameters == default.replace(hidden=(9, 5), activation="tanh", learning_rate=7e-3)
    assert DQN("CartPole-v1", policy_kwargs={}).members[0].hyperparameters == default
    assert DQN("CartPole-v1", learning_rate=None, policy_kwargs=None).members[0].hyperparameters == default


def test_learning_rate_and_layers_are_those_of_sacs_actor_too() -> None:
    model = SAC("Pendulum-v1", learning_rate=7e-3, policy_kwargs={"net_arch": [9, 5], "activation_fn": "LeakyReLU"})
    for member in model.members:
        assert (member.hyperparameters.hidden, member.hyperparameters.learning_rate) == ((9, 5), 7e-3)
        assert member.hyperparameters.activation == "leaky_relu"
    assert (model.settings.actor_hidden, model.settings.actor_learning_rate) == ("9x5", 7e-3)
    assert model.settings.actor_activation == "leaky_relu"
    model = SAC("Pendulum-v1", policy_kwargs={"net_arch": {"pi": [9], "qf": [5]}}, learning_rate=2e-3, actor_hidden="7")
    assert (model.members[0].hyperparameters.hidden, model.settings.actor_hidden) == ((5,), "7")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([64, 64], r"must be a mapping such as dict\(net_arch=\[64, 64\]\), but got \[64, 64\]"),
        ({"optimizer_class": object}, "may have net_arch and activation_fn, but got optimizer_class"),
        ({"net_arch": {"vf": [4]}}, "or have them for pi and qf"),
        ({"net_arch": {"pi": [9], "qf": [5]}}, r"DQN has no actor: write net_arch=\[5\]"),
        ({"net_arch": "64"}, "hidden must be a list of layer widths"),
        ({"activation_fn": "reluu"}, "unknown activation 'reluu'; did you mean 'relu'"),
    ],
)
def test_mistakes_in_policy_kwargs(policy: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        DQN("CartPole-v1", policy_kwargs=policy)


def test_single_hyperparameters_do_not_go_with_members() -> None:
    with pytest.raises(UserError, match="learning_rate cannot be given together with members="):
        DQN("CartPole-v1", SMALL, learning_rate=1e-3)
    with pytest.raises(UserError, match="hidden cannot be given together with schedule="):
        schedule = [{"step": 0, "hyperparameters": {"hidden": [8]}}]
        DQN("CartPole-v1", schedule=schedule, policy_kwargs={"net_arch": [8]})


def test_the_agent_that_single_hyperparameters_made_is_saved_with_them(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", learning_rate=7e-3, policy_kwargs={"net_arch": [9]})
    loaded = DQN.load(model.save(tmp_path / "agent"))
    assert [m.hyperparameters for m in loaded.members] == [m.hyperparameters for m in model.members]


def test_evaluations_are_taken_as_the_tuple_that_users_know() -> None:
    model = DQN("CartPole-v1", SMALL)
    result = evaluate_policy(model, model.make_env(), n_eval_episodes=3)
    mean, std = result
    assert (result[0], result[1], result[-1], result[:2], len(result)) == (mean, std, std, (mean, std), 2)
    assert (mean, std) == (result.mean, result.std) == (np.mean(result.returns), np.std(result.returns))
    with pytest.raises(IndexError):
        result[2]
    rewards, lengths = evaluate_policy(model, model.make_env(), n_eval_episodes=3, return_episode_rewards=True)
    assert (rewards, lengths) == (list(result.returns), list(result.lengths))


def test_playing_in_the_training_environment_between_two_trainings_spoils_nothing() -> None:
    model = DQN("CartPole-v1", SMALL, **QUICK).learn(120)
    env = model.get_env()
    assert evaluate_policy(model, env, n_eval_episodes=2).lengths
    env.close()
    model.learn(120, reset_num_timesteps=False)
    trainer = model.trainer
    position = trainer.environments.position()[0]
    # Replaying the recorded current episode leads to the environment's current observation.
    again = gymnasium.make("CartPole-v1")
    observation, _ = again.reset(seed=position.seed)
    for action in position.actions:
        observation = again.step(int(action))[0]
    np.testing.assert_array_equal(observation, trainer.environments.observations[0])
    assert trainer.replay.rows(119, 120)["truncated"].all(), "the aborted episode must end as truncated"


def test_playing_in_the_training_environment_during_training_is_refused() -> None:
    class Player(adaqn.BaseCallback):
        def _on_step(self) -> bool:
            self.training_env.reset()
            return True

    model = DQN("CartPole-v1", SMALL, **QUICK)
    with pytest.raises(UserError, match=r"cannot be reset or stepped during training: .*make_env"):
        model.learn(60, callback=Player())
    model.get_env().reset()


def test_another_environment_takes_the_place_of_the_first(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", SMALL, env_kwargs={"max_episode_steps": 50}, n_envs=2, **QUICK).learn(120)
    model.set_env(lambda: gymnasium.make("CartPole-v1", max_episode_steps=6))
    model.learn(120, reset_num_timesteps=False)
    later = [episode for episode in model.trainer.recent_episodes if episode.step > 120]
    assert len(later) >= 20 and max(episode.length for episode in later) == 6
    assert model.make_env().spec.max_episode_steps == 6  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(CheckpointError, match=r"this agent was made for the observation space Box \(4,\) .*Box \(6,\)"):
        model.set_env("Acrobot-v1")
    with pytest.raises(UserError, match="n_envs must be 1 for an environment object"):
        model.set_env(gymnasium.make("CartPole-v1"))
    assert model.learn(20, reset_num_timesteps=False).num_timesteps == 260
    model.set_env("CartPole-v1")
    assert DQN.load(model.save(tmp_path / "agent")).make_env().spec.max_episode_steps == 500  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_replay_buffer_is_saved_and_learned_from_at_once(n_envs: int, tmp_path: Path) -> None:
    model = DQN("CartPole-v1", SMALL, n_envs=n_envs, buffer_size=90, **QUICK).learn(150)
    path = model.save_replay_buffer(tmp_path / "buffer")
    assert path == tmp_path / "buffer.zip"
    loaded = DQN.load(model.save(tmp_path / "agent"))
    loaded.load_replay_buffer(tmp_path / "buffer")
    old, new = model.trainer.replay, loaded.trainer.replay
    assert (new.oldest, new.added) == (old.oldest, old.added) == (60 // n_envs, 150 // n_envs)
    rows, known = new.rows(new.oldest, new.added), old.rows(old.oldest, old.added)
    assert rows["truncated"][-1].all(), "a new episode must follow"
    known["truncated"][-1] = True
    for name in known:
        np.testing.assert_array_equal(rows[name], known[name])
    updates = loaded.trainer.updates
    loaded.learn(30, reset_num_timesteps=False)
    assert loaded.trainer.updates == updates + 30, "with an empty buffer there would be no updates"
    assert model.save_replay_buffer(tmp_path / "buffer") == path, "a file of the same kind is replaced"


def test_a_smaller_buffer_keeps_the_newest(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", SMALL, **QUICK).learn(100)
    model.save_replay_buffer(tmp_path / "buffer")
    small = DQN("CartPole-v1", SMALL, buffer_size=30, **QUICK)
    small.load_replay_buffer(tmp_path / "buffer")
    replay = small.trainer.replay
    assert (replay.oldest, replay.added) == (70, 100)
    np.testing.assert_array_equal(
        replay.rows(70, 100)["observation"], model.trainer.replay.rows(70, 100)["observation"]
    )


def test_images_are_saved_and_loaded_frame_by_frame(tmp_path: Path) -> None:
    pytest.importorskip("minatar")
    model = DQN("MinAtar/Breakout", **QUICK).learn(60)
    model.save_replay_buffer(tmp_path / "frames")
    other = DQN("MinAtar/Breakout", **QUICK)
    other.load_replay_buffer(tmp_path / "frames")
    batches = [m.trainer.replay.sample(np.random.default_rng(0), 32) for m in (model, other)]
    for one, same in zip(*batches, strict=True):
        np.testing.assert_array_equal(one, same)


def test_files_that_are_no_fitting_replay_buffer_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", SMALL, **QUICK).learn(60)
    before = model.trainer.replay
    path = model.save_replay_buffer(tmp_path / "buffer")
    arrays, meta = read_snapshot(path, "replay")

    def refused(message: str, changed: dict[str, Any], target: DQN = model, **meta_changes: Any) -> None:
        write_snapshot(tmp_path / "changed.zip", Snapshot({**arrays, **changed}, {**meta, **meta_changes}), "replay")
        with pytest.raises(CheckpointError, match=message):
            target.load_replay_buffer(tmp_path / "changed")

    refused(
        "action must be from 0 to 1, but it is from 0 to 9",
        {"action": np.where(arrays["action"] == 1, 9, 0).astype(np.int32)},
    )
    refused("reward has non-finite values", {"reward": arrays["reward"] * np.float32(np.nan)})
    refused(r"reward .* must be float32\[60, 1\], but is float64", {"reward": arrays["reward"].astype(np.float64)})
    refused("terminated .* must be bool", {"terminated": arrays["terminated"][:5]})
    refused("must have observation, .* but have ", {"more": arrays["reward"]})
    refused("its first row is 'x'", {}, first="x")
    refused("its first row is -1", {}, first=-1)
    refused("with environments = 2, but here it is 1", {}, environments=2)
    refused("was made for the observation space", {}, target=DQN("Acrobot-v1", SMALL))
    with pytest.raises(CheckpointError, match="is a file of kind 'agent', but 'replay' is needed"):
        model.load_replay_buffer(model.save(tmp_path / "agent"))
    (tmp_path / "notes.zip").write_text("mine")
    with pytest.raises(UserError, match="exists, but is no replay buffer that adaqn saved, so it is not overwritten"):
        model.save_replay_buffer(tmp_path / "notes")
    assert (tmp_path / "notes.zip").read_text() == "mine"
    assert model.trainer.replay is before
