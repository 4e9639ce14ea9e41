"""MinAtar against its package, exact repetition, and pictures."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.envs.making import make_environment, name_of
from adaqn.envs.suites.minatar import BACKGROUND, CELL, NAMES, picture


def random_actions(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> np.ndarray:
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    return np.random.default_rng(seed).integers(env.action_space.n, size=steps)


def trace(env: gymnasium.Env[Any, Any], seed: int, steps: int = 200) -> list[Any]:
    """Everything observed in an episode with random actions."""
    shown = [env.reset(seed=seed)[0].tobytes()]
    for action in random_actions(env, seed, steps):
        observation, reward, terminated, truncated, _ = env.step(action)
        shown.append((observation.tobytes(), reward, terminated, truncated))
        if terminated:
            break
    return shown


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_game_of_the_package(name: str) -> None:
    env = make_environment(name, {})
    assert name_of(env) == name
    # Imported after ours, which keeps its warnings, and those of what it imports, to itself.
    from minatar import Environment

    game = Environment({"MinAtar/SpaceInvaders": "space_invaders"}.get(name, name.removeprefix("MinAtar/").lower()))
    assert env.observation_space == gymnasium.spaces.Box(0, 1, (10, 10, game.n_channels), np.uint8)
    rewards = 0.0
    for seed in range(1 if name == "MinAtar/Freeway" else 20):
        game.seed(seed)
        game.last_action = 0
        game.reset()
        observation, _ = env.reset(seed=seed)
        terminated, actions = False, iter(random_actions(env, seed, 3000))
        while not terminated:
            assert env.observation_space.contains(observation)
            np.testing.assert_array_equal(observation, game.state())
            action = next(actions)
            observation, reward, terminated, truncated, _ = env.step(action)
            assert ((reward, terminated), truncated) == (game.act(game.minimal_action_set()[action]), False)
            rewards += float(reward)
    assert rewards > 0 or name == "MinAtar/Freeway"  # which random play does not cross


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_repeats_an_episode_in_another_object_and_after_other_episodes(name: str) -> None:
    # With so many sticky actions, a leftover last action of the previous episode would show.
    env, other = (make_environment(name, {"sticky_action_prob": 0.9}) for _ in range(2))
    first = trace(env, 5)
    assert trace(env, 6) != first
    for last in range(3):
        env.step(last)
        assert trace(env, 5) == first
    assert trace(other, 5) == first


def test_seeds_of_any_size_are_taken_and_none_goes_on_from_the_last() -> None:
    env, other = (make_environment("MinAtar/Freeway", {}) for _ in range(2))
    for seed in (0, 2**32 - 1, 2**40):
        assert trace(env, seed, 20) == trace(other, seed, 20)
    later = []
    for each in (env, other):
        each.reset(seed=3)
        later.append([each.reset()[0].tobytes() for _ in range(5)])
    assert later[0] == later[1]
    assert len(set(later[0])) > 1


@pytest.mark.parametrize("name", NAMES)
def test_environments_restore_it_to_the_bit(name: str) -> None:
    original, rng = Environments.make(name, 2, {}), np.random.default_rng(3)
    original.reset(rng)
    actions = np.random.default_rng(4).integers(3, size=(300, 2))
    for action in actions[:157]:
        original.step(action, rng)
    position, observations = original.position(), original.observations.copy()
    restored, state = Environments.make(name, 2, {}), rng.bit_generator.state
    expected = [original.step(action, rng) for action in actions[157:]]
    rng.bit_generator.state = state
    assert restored.restore(position, observations, rng) == []
    for action, left in zip(actions[157:], expected, strict=True):
        right = restored.step(action, rng)
        assert [array.tobytes() for array in left] == [array.tobytes() for array in right]


def test_the_packages_own_environments_forget_the_last_action_too() -> None:
    make_environment("MinAtar/Breakout", {})  # imports the package without its warnings
    from minatar.gym import BaseEnv

    env = BaseEnv("breakout", sticky_action_prob=1.0)
    environments, rng = Environments.make(env, 1, {}), np.random.default_rng(0)
    environments.reset(rng)
    env.game.last_action = 1  # to the left, for ever
    environments.reset(rng)
    for _ in range(3):
        environments.step(np.array([1]), rng)
    assert env.game.env.pos == 4


def test_actions_are_the_minimal_ones_or_all() -> None:
    env = make_environment("MinAtar/Breakout", {"sticky_action_prob": 0.0})
    everything = make_environment("MinAtar/Breakout", {"sticky_action_prob": 0.0, "minimal_actions": False})
    assert (env.action_space, everything.action_space) == (gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(6))
    for each, right in ((env, 2), (everything, 3)):
        observation, _ = each.reset(seed=0)
        assert observation[9, :, 0].argmax() == 4
        assert each.step(right)[0][9, :, 0].argmax() == 5
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="from 0 to 2: -1"):
        env.step(-1)


def test_the_horizon_truncates() -> None:
    env = make_environment("MinAtar/Freeway", {})
    assert env.spec is not None and env.spec.max_episode_steps == 5_000
    env = make_environment("MinAtar/Freeway", {"max_episode_steps": 4})
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(4)] == [(False, False)] * 3 + [(False, True)]


def test_learning_sees_rewards_as_they_are_and_no_stack() -> None:
    environments = Environments.make("MinAtar/Breakout", 1, {})
    assert environments.frame_stack == 1
    assert environments._reward_bound is None


def test_a_picture_has_a_colour_for_each_channel_and_shows_the_first_one() -> None:
    observation = np.zeros((10, 10, 4), np.uint8)
    observation[0, 0, 0] = observation[0, 1, 1] = observation[0, 2, 2] = observation[0, 3, 3] = 1
    observation[5, 7, [1, 3]] = 1
    cells = picture(observation)[CELL // 2 :: CELL, CELL // 2 :: CELL]
    assert cells.shape == (10, 10, 3)
    colours = [tuple(cells[0, column].tolist()) for column in range(5)]
    assert len(set(colours)) == 5
    assert colours[0] == (255, 63, 63)  # the first hue is red
    assert colours[4] == BACKGROUND
    assert tuple(cells[5, 7].tolist()) == colours[1]


def test_what_is_rendered_is_the_observation() -> None:
    env = make_environment("MinAtar/Seaquest", {"render_mode": "rgb_array"})
    env.reset(seed=0)
    observation, *_ = env.step(4)
    image: Any = env.render()
    assert (image.shape, image.dtype) == ((240, 240, 3), np.uint8)
    np.testing.assert_array_equal(image, picture(observation))
    plain: Any = make_environment("MinAtar/Seaquest", {}).unwrapped
    assert plain.render() is None


def test_an_unknown_game_and_a_missing_package_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    message = r"^unknown environment 'MinAtar/Brekout'; did you mean 'MinAtar/Breakout'\? \(allowed: MinAtar/Asterix, "
    with pytest.raises(UserError, match=message):
        make_environment("MinAtar/Brekout", {})
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(UserError, match=r'\'MinAtar/Asterix\' needs .*minatar is .* `pip install "adaqn\[minatar\]"`'):
        make_environment("MinAtar/Asterix", {})


def test_an_id_that_the_package_registered_itself_stays_gymnasiums(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvSpec("MinAtar/Breakout-v1", "gymnasium.envs.classic_control:CartPoleEnv")
    monkeypatch.setitem(gymnasium.registry, "MinAtar/Breakout-v1", spec)
    assert make_environment("MinAtar/Breakout-v1", {}).observation_space.shape == (4,)
