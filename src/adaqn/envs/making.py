"""Error messages about missing packages, completed with the adaqn extra that installs them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from adaqn.base.errors import EnvironmentFault, UserError, nearest
from adaqn.envs import suites
from adaqn.envs.spaces import observation_dtype, require_box_observations

# The extra of adaqn that installs each module.
EXTRAS = {"mujoco": "mujoco", "ale_py": "atari", "minatar": "minatar", "imageio": "video", "wandb": "wandb"}


def with_our_extra(message: str) -> str:
    """The message about a missing package, with the adaqn extra that installs it, if there is one."""
    for package, extra in EXTRAS.items():
        if re.search(rf"gymnasium\[{extra}\]|No module named '{package}'", message):
            install = f'`pip install "adaqn[{extra}]"`'
            replaced = re.sub(rf'`pip install "?gymnasium\[{extra}\]"?`', install, message)
            return replaced if install in replaced else f"{message}; {install} installs it"
    return message


# Wrappers that pass on every observation unchanged.
_TRANSPARENT = (
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.TimeLimit,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
)


def make_environment(identifier: str, env_kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Make an environment of a suite or of a registered id; every failure is a one-sentence UserError."""
    suites.refuse_replaced(identifier)
    # Our own checks of each step replace Gymnasium's checker, which would add a wrapper to the hot path.
    arguments = {"disable_env_checker": True, **env_kwargs}
    try:
        return gymnasium.make(suites.find_spec(identifier) or identifier, **arguments)
    except UserError:
        raise
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(identifier) from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(
            f"environment {identifier!r} needs a package that is missing: {with_our_extra(_one_line(error))}"
        ) from error
    except gymnasium.error.Error as error:
        raise UserError(f"environment {identifier!r} cannot be made: {_one_line(error)}") from error
    except Exception as error:
        raise EnvironmentFault(
            f"environment {identifier!r} raised {error!r} when it was made with {dict(env_kwargs)}"
        ) from error


def close(env: gymnasium.Env) -> None:
    """Close an environment; an exception in `close` is only a warning, since the environment is no longer needed."""
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"environment {name_of(env)} raised {error!r} when it was closed", RuntimeWarning, stacklevel=2)


def name_of(env: gymnasium.Env) -> str:
    """The name of an environment: the id it was made from, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def learning_reward_bound_of(env: gymnasium.Env) -> float | None:
    """The environment's reward bound: rewards are clipped to [-bound, bound] for learning. None if there is none."""
    return getattr(env.unwrapped, "learning_reward_bound", None)


def frame_stack_of(env: gymnasium.Env) -> int:
    """Number of frames stacked in the channels of an observation, newest last; 1 if unknown.

    If it is more than 1, each step drops the oldest frame and appends a new one, and zeros stand for frames before
    the episode's first. So an observation can be rebuilt from the last frames of its episode.
    """
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        if not isinstance(inner, _TRANSPARENT):
            return 1
        inner = inner.env
    space = require_box_observations(env.observation_space)
    stack = getattr(inner, "frame_stack", 1)
    return stack if observation_dtype(space) == np.uint8 and space.shape[-1] % stack == 0 else 1


def _unknown(identifier: str) -> UserError:
    # Unlike `unknown_name` this lists nothing: hundreds of ids are registered.
    module, colon, name = identifier.partition(":")
    if colon:
        return UserError(
            f"unknown environment {identifier!r}{nearest(name, suites.suggested())} (module {module!r} has no such id)"
        )
    # Suites beyond Gymnasium's own register themselves when their module is imported.
    return UserError(
        f"unknown environment {identifier!r}{nearest(identifier, suites.suggested())} "
        "(allowed: an id registered with Gymnasium; "
        f"if another package registers it, write 'package:{identifier}', or import the package, "
        "on the command line with --import PACKAGE)"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
