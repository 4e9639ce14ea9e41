"""From what a user gives, an id or an environment, to Gymnasium environments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from adaqn.envs import suites
from adaqn.envs.spaces import observation_dtype, require_box_observations
from adaqn.envs.suites import atari
from adaqn.errors import EnvironmentFault, UserError, nearest

# Those that pass observations on as they are, at the steps at which they came.
_TRANSPARENT = (
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.TimeLimit,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
)


def make_environment(identifier: str, env_kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """One new environment of a suite or a registered id; all that can go wrong in it is told in one sentence."""
    atari.refuse_raw(identifier)
    # Our own checks of each step replace Gymnasium's checker, which is one wrapper more on the hot path.
    arguments = {"disable_env_checker": True, **env_kwargs}
    try:
        return gymnasium.make(suites.find_spec(identifier) or identifier, **arguments)
    except UserError:
        raise
    except gymnasium.error.NamespaceNotFound as error:
        # Suites beyond Gymnasium's own register themselves when their module is imported.
        hint = f"; install the package that brings it and give its module as well, as in '<module>:{identifier}'"
        similar = nearest(identifier, [known for known in _known() if "/" in known])
        raise _unknown(identifier, similar or hint) from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(identifier, nearest(identifier, _known())) from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"environment {identifier!r} needs a package that is missing: {_one_line(error)}") from error
    except gymnasium.error.Error as error:
        raise UserError(f"environment {identifier!r} cannot be made: {_one_line(error)}") from error
    except Exception as error:
        raise EnvironmentFault(
            f"environment {identifier!r} raised {error!r} when it was made with {dict(env_kwargs)}"
        ) from error


def observation_shape_of(identifier: str, env_kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of what an environment shows, which takes making one."""
    env = make_environment(identifier, env_kwargs)
    shape = tuple(env.observation_space.shape or ())
    close(env)
    return shape


def close(env: gymnasium.Env[Any, Any]) -> None:
    """Close an environment that is no longer needed; one that fails in it has done its work all the same."""
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"environment {name_of(env)} raised {error!r} when it was closed", RuntimeWarning, stacklevel=2)


def name_of(env: gymnasium.Env[Any, Any]) -> str:
    """What to call an environment: the id it was made by, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def learning_reward_bound_of(env: gymnasium.Env[Any, Any]) -> float | None:
    """To learn from, rewards are clipped to [-bound, bound] where the environment says so."""
    return getattr(env.unwrapped, "learning_reward_bound", None)


def frame_stack_of(env: gymnasium.Env[Any, Any]) -> int:
    """Of how many images, the newest last, the channels of an observation consist; 1 where nothing is known.

    With more than 1, a step takes out the oldest image and puts in a new one, and an episode's first observation
    has zeros in place of images before it. So an observation is known from the last images of its episode.
    """
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        if not isinstance(inner, _TRANSPARENT):
            return 1
        inner = inner.env
    space = require_box_observations(env.observation_space)
    stack = getattr(inner, "frame_stack", 1)
    return stack if observation_dtype(space) == np.uint8 and space.shape[-1] % stack == 0 else 1


def _known() -> list[str]:
    """All ids that an environment can be made of, but for raw Atari's, which are registered in some processes only."""
    registered = [name for name, spec in gymnasium.registry.items() if not atari.is_raw(spec)]
    return registered + suites.names()


def _unknown(identifier: str, hint: str) -> UserError:
    # Unlike `unknown_name` this lists nothing: hundreds of ids are registered.
    return UserError(
        f"unknown environment {identifier!r}{hint} (allowed: an id registered with Gymnasium, or an environment object)"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
