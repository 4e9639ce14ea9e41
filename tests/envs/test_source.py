"""Sources of environments: ids, functions and objects, and what is rejected."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentSource


class Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_a_function_makes_as_many_as_asked_and_they_are_closed() -> None:
    made: list[Recorded] = []

    def make_env(steps: int = 9) -> gymnasium.Env[Any, Any]:
        made.append(Recorded(gymnasium.make("CartPole-v1", max_episode_steps=steps)))
        return made[-1]

    environments = Environments.make(make_env, 3, {"steps": 4})
    environments.reset(np.random.default_rng(0))
    for _ in range(4):
        environments.step(np.array([0, 1, 0]), np.random.default_rng(0))
    assert [episode.length for episode in environments.finished] == [4, 4, 4]
    environments.close()
    assert len(made) == 3 and all(env.closed for env in made)


def test_a_class_of_environments_is_such_a_function() -> None:
    from gymnasium.envs.classic_control import CartPoleEnv

    environments = Environments.make(CartPoleEnv, 2)
    assert environments.count == 2 and environments.name == "CartPoleEnv"


def test_functions_that_make_no_environment_are_named() -> None:
    def fails() -> gymnasium.Env[Any, Any]:
        raise RuntimeError("no display")

    one = gymnasium.make("CartPole-v1")
    with pytest.raises(EnvironmentFault, match=r"environment function 'fails' raised RuntimeError\('no display'\)"):
        Environments.make(fails, 1)
    with pytest.raises(UserError, match=r"function '<lambda>' must return a gymnasium\.Env, but it returned a int"):
        Environments.make(lambda: 7, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="function '<lambda>' must make a new environment each time"):
        Environments.make(lambda: one, 2)


def test_vector_environments_are_pointed_to_n_envs() -> None:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    with pytest.raises(UserError, match=r"vector environment \(SyncVectorEnv\).* id, or a function .* and n_envs=3"):
        Environments.make(vector, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="n_envs=3"):
        Environments.make(lambda: vector, 1)  # pyright: ignore[reportArgumentType]

    class DummyVecEnv:
        """The attributes by which Stable-Baselines3's is recognised."""

        num_envs = 4

        def step(self, actions: Any) -> None: ...

    with pytest.raises(UserError, match=r"vector environment \(DummyVecEnv\).*n_envs=4"):
        Environments.make(DummyVecEnv(), 1)  # pyright: ignore[reportArgumentType]


def test_wrappers_go_around_ids_functions_and_objects() -> None:
    wrappers = ["gymnasium.wrappers:FlattenObservation"]
    for env in ("FrozenLake-v1", lambda: gymnasium.make("FrozenLake-v1"), gymnasium.make("FrozenLake-v1")):
        source = EnvironmentSource.of(env, wrappers=wrappers)
        assert isinstance(source.make(), FlattenObservation)
        assert source.observation_shape() == (16,)


def test_what_was_made_is_closed_when_its_wrapper_fails() -> None:
    made: list[Recorded] = []

    def make_env() -> gymnasium.Env[Any, Any]:
        made.append(Recorded(gymnasium.make("CartPole-v1")))
        return made[-1]

    with pytest.raises(UserError, match="has no wrapper"):
        EnvironmentSource.of(make_env, wrappers=["gymnasium.wrappers:Nothing"]).make()
    mine = Recorded(gymnasium.make("CartPole-v1"))
    with pytest.raises(UserError, match="has no wrapper"):
        EnvironmentSource.of(mine, wrappers=["gymnasium.wrappers:Nothing"]).make()
    assert made[0].closed and not mine.closed


def test_modules_that_a_configuration_would_import_are_known_beforehand() -> None:
    source = EnvironmentSource.of(
        "robots:Walk-v0",
        wrappers=["gymnasium.wrappers:FlattenObservation", "mine.wrappers:Scale", "robots:Wrap"],
        imports=["ale_py"],
    )
    assert source.foreign_modules == ("ale_py", "robots", "mine.wrappers")
    assert EnvironmentSource.of("CartPole-v1").foreign_modules == ()
