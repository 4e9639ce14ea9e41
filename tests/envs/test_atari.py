"""Atari against its preprocessing written in Python, exact repetition, ids and rewards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py import roms
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec

from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.envs.making import frame_stack_of, learning_reward_bound_of, make_environment, name_of
from adaqn.envs.suites.atari import NAMES, AtariGame


def area_weights(size: int, smaller: int) -> np.ndarray:
    """[smaller, size] the weight of each old pixel in each new one."""
    edges, pixels = np.linspace(0, size, smaller + 1), np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.maximum(overlap, 0) / (size / smaller)


def resized(screens: np.ndarray) -> np.ndarray:
    """[..., 210, 160] to [..., 84, 84] by area, not rounded."""
    return area_weights(210, 84) @ screens @ area_weights(160, 84).T


class WrittenOut:
    """Dopamine's pipeline with an ALE console, frame by frame, up to the resizing."""

    def __init__(self, rom: str) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.console = ale_py.ALEInterface()
        self.console.setFloat("repeat_action_probability", 0.25)
        self.path = roms.get_rom_path(rom)
        self.third = self.fourth = np.zeros((210, 160), np.uint8)  # of the frames of a step

    def reset(self, seed: int) -> np.ndarray:
        assert self.path is not None
        self.console.setInt("random_seed", seed)
        self.console.loadROM(self.path)
        self.console.reset_game()
        self.fourth = self.console.getScreenGrayscale()
        return self.fourth

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        reward = 0
        for frame in range(1, 5):
            reward += self.console.act(self.console.getMinimalActionSet()[action])
            if self.console.game_over():
                break  # what the terminal observation shows of this step depends on the frame it ends in
            if frame == 3:
                self.third = self.console.getScreenGrayscale()
            if frame == 4:
                self.fourth = self.console.getScreenGrayscale()
        self.fourth = np.maximum(self.third, self.fourth)
        return self.fourth, reward, self.console.game_over()


def started(name: str, seed: int, **kwargs: Any) -> tuple[gymnasium.Env[Any, Any], np.ndarray]:
    env = make_environment(name, kwargs)
    return env, env.reset(seed=seed)[0]


def random_actions(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> np.ndarray:
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    return np.random.default_rng(seed).integers(env.action_space.n, size=steps)


def trace(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> Iterator[tuple[bytes, float, bool]]:
    """Everything observed in an episode with random actions."""
    actions = random_actions(env, seed, steps)
    yield env.reset(seed=seed)[0].tobytes(), 0.0, False
    for action in actions:
        observation, reward, terminated, _, _ = env.step(action)
        yield observation.tobytes(), float(reward), terminated
        if terminated:
            return


@pytest.mark.parametrize(("name", "rom", "seed"), [("Atari/Pong", "pong", 7), ("Atari/Breakout", "breakout", 0)])
def test_it_is_the_pipeline_written_out(name: str, rom: str, seed: int) -> None:
    env, observation = started(name, seed)
    written_out = WrittenOut(rom)
    observations, screens = [observation], [np.zeros((210, 160))] * 3 + [written_out.reset(seed)]
    rewards, lives, terminated = set(), set(), False
    for action in random_actions(env, 1, 300 if rom == "pong" else 2000):
        observation, reward, terminated, truncated, info = env.step(action)
        screen, expected_reward, over = written_out.step(action)
        assert (reward, terminated, truncated) == (expected_reward, over, False)
        observations.append(observation)
        screens.append(screen)
        rewards.add(reward)
        lives.add(info["lives"])
        if terminated:
            break
    frames = resized(np.stack(screens))
    stacks = np.stack([frames[first : first + len(observations)] for first in range(4)], axis=-1)
    # C++ weighs in single precision and rounds: a half, which is frequent, may go either way.
    assert np.abs(np.stack(observations) - stacks).max() < 0.5 + 1e-3
    assert rewards == ({0, -1} if rom == "pong" else {0, 1})
    if rom == "breakout":
        assert terminated
        assert lives == {5, 4, 3, 2, 1, 0}  # losing a life does not end the episode


def test_an_observation_is_a_stack_of_bytes_with_the_newest_last_and_zeros_first() -> None:
    env, observation = started("Atari/BattleZone", 0)
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    assert env.observation_space.contains(observation)
    assert not observation[..., :3].any()
    assert observation[..., 3].any()
    for _ in range(20):
        before, (observation, *_) = observation, env.step(1)
        np.testing.assert_array_equal(observation[..., :3], before[..., 1:])
    assert not np.array_equal(observation[..., 3], observation[..., 2])


def test_a_seed_repeats_an_episode_in_another_object_and_after_other_episodes() -> None:
    env, other = make_environment("Atari/Pong", {}), make_environment("Atari/Pong", {})
    first = list(trace(env, 5, 150))
    assert list(trace(env, 6, 150)) != first
    assert list(trace(env, 5, 150)) == first  # begun in the midst of an episode
    short = make_environment("Atari/Pong", {"max_episode_steps": 3})
    for _ in trace(short, 0, 3):  # to the end of the horizon
        pass
    assert list(trace(short, 5, 3)) == first[:4]
    assert list(trace(other, 5, 150)) == first


def test_seeds_of_any_size_are_taken_and_none_goes_on_from_the_last() -> None:
    env, other = make_environment("Atari/Pong", {}), make_environment("Atari/Pong", {})
    for seed in (0, 2**31, 2**32 - 1):
        assert list(trace(env, seed, 40)) == list(trace(other, seed, 40))
    unseeded = []
    for each in (env, other):
        each.reset(seed=3)
        each.reset()
        unseeded.append([each.step(action)[0].tobytes() for action in (2, 3, 4, 5) * 10])
    assert unseeded[0] == unseeded[1]


def test_environments_restore_it_to_the_bit() -> None:
    original, rng = Environments.make("Atari/Pong", 1, {}), np.random.default_rng(3)
    original.reset(rng)
    actions = np.random.default_rng(4).integers(6, size=(100, 1))
    for action in actions[:60]:
        original.step(action, rng)
    position, observations = original.position(), original.observations.copy()
    restored = Environments.make("Atari/Pong", 1, {})
    assert restored.restore(position, observations, rng) == []
    for action in actions[60:]:
        left, right = original.step(action, rng), restored.step(action, rng)
        assert [array.tobytes() for array in left] == [array.tobytes() for array in right]


def test_the_horizon_counts_steps_and_truncates() -> None:
    env = make_environment("Atari/Pong", {})
    assert env.spec is not None and env.spec.max_episode_steps == 27_000
    env, _ = started("Atari/Pong", 0, max_episode_steps=5)
    steps = [env.step(0) for _ in range(5)]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps] == [(False, False)] * 4 + [
        (False, True)
    ]
    assert steps[-1][-1]["episode_frame_number"] == 20


def test_rewards_are_clipped_to_learn_from_and_whole_in_returns() -> None:
    played = {}
    for clip in (True, False):
        environments = Environments.make("Atari/SpaceInvaders", 1, {"clip_rewards": clip})
        rng, actions, rewards = np.random.default_rng(0), np.random.default_rng(0), []
        environments.reset(rng)
        while not environments.finished:
            rewards.append(float(environments.step(actions.integers(6, size=1), rng).reward[0]))
        played[clip] = (np.array(rewards), environments.finished[0].total)
    clipped, whole = played[True][0], played[False][0]
    assert whole.max() > 1.0
    assert played[True][1] == played[False][1] == whole.sum()
    np.testing.assert_array_equal(clipped, np.clip(whole, -1.0, 1.0))


def test_the_replay_is_told_of_the_stack_unless_a_wrapper_may_change_it() -> None:
    env = make_environment("Atari/Pong", {})
    assert Environments([env], owned=False).frame_stack == 4
    assert frame_stack_of(wrappers.RecordEpisodeStatistics(env)) == 4
    assert frame_stack_of(wrappers.TransformObservation(env, lambda image: 255 - image, env.observation_space)) == 1
    assert frame_stack_of(wrappers.MaxAndSkipObservation(env)) == 1
    cart = gymnasium.make("CartPole-v1")
    assert (frame_stack_of(cart), learning_reward_bound_of(cart)) == (1, None)


def test_actions_are_the_minimal_ones_or_all() -> None:
    env, _ = started("Atari/Pong", 0)
    assert env.action_space == gymnasium.spaces.Discrete(6)
    with pytest.raises(gymnasium.error.InvalidAction, match="from 0 to 5: 6"):
        env.step(6)
    everything = make_environment("Atari/Pong", {"full_action_space": True})
    assert everything.action_space == gymnasium.spaces.Discrete(18)


def test_no_step_goes_beyond_the_end_of_a_game() -> None:
    game = AtariGame("Pong")
    with pytest.raises(gymnasium.error.ResetNeeded):
        game.step(0)
    game.reset(seed=0)
    while not game.step(0)[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        game.step(0)


def test_what_is_rendered_is_the_same_game_in_colours() -> None:
    env, observation = started("Atari/Breakout", 3, render_mode="rgb_array")
    plain, _ = started("Atari/Breakout", 3)
    for action in random_actions(env, 0, 120):
        observation, *_ = env.step(action)
        np.testing.assert_array_equal(observation, plain.step(action)[0])
    screen: Any = env.render()
    assert screen.shape == (210, 160, 3)
    assert screen.dtype == np.uint8
    assert len(np.unique(screen[57:93, 8:152].reshape(-1, 3), axis=0)) >= 6  # bricks in rows of six colours
    # Where nothing moves, a pixel of the observation is the gray of the screen's area: here the score above.
    gray = resized(screen @ [0.2989, 0.5870, 0.1140])
    assert np.abs(gray - observation[..., 3])[:12].max() < 2
    assert plain.render_mode is None


def test_a_screen_of_another_game_would_be_noticed() -> None:
    env = AtariGame("Breakout", render_mode="rgb_array")
    env.reset(seed=3)
    assert env._screen is not None
    env._screen.reset(4)
    with pytest.raises(RuntimeError, match="no longer plays the same game"):
        for action in random_actions(env, 0, 2000):
            env.step(action)


def test_all_games_that_ale_py_registers_are_known() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("ALE/")}
    assert {f"ALE/{name.removeprefix('Atari/')}-v5" for name in NAMES} == registered
    assert list(NAMES) == sorted(NAMES)
    env = make_environment("Atari/TicTacToe3D", {})  # the name that is not a plain change of spelling
    assert name_of(env) == "Atari/TicTacToe3D"


@pytest.mark.parametrize("given", ["Atari/Pnog", "atari/pong", "Atary/Pong", "Atari/Pong-v5"])
def test_a_misspelt_game_gets_the_nearest_one(given: str) -> None:
    with pytest.raises(UserError, match=f"^unknown environment '{given}'; did you mean 'Atari/Pong'\\?"):
        make_environment(given, {})


@pytest.mark.parametrize("given", ["ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-v0"])
def test_an_id_of_a_raw_game_gets_ours(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"'{given}' shows raw screens; 'Atari/Pong' is .* 'ale_py:ALE/Pong-v5'"
    with pytest.raises(UserError, match=message):
        make_environment(given, {})
    monkeypatch.delitem(gymnasium.registry, given)  # as before ale_py is imported
    with pytest.raises(UserError, match=message):
        make_environment(given, {})


def test_raw_games_can_be_had_and_ids_of_others_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_environment("ale_py:ALE/Pong-v5", {}).observation_space.shape == (210, 160, 3)
    spec = EnvSpec("Frogger-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    monkeypatch.setitem(gymnasium.registry, "Frogger-v0", spec)
    assert make_environment("Frogger-v0", {}).observation_space.shape == (4,)


def test_arguments_out_of_range_and_a_missing_package_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="repeat_action_probability must be a finite number between 0 and 1, but got 2"):
        make_environment("Atari/Pong", {"repeat_action_probability": 2})
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(UserError, match=r'\'Atari/Pong\' needs .*ale-py is not .* `pip install "adaqn\[atari\]"`'):
        make_environment("Atari/Pong", {})
