"""Placeholder environment of an agent that was loaded without one: it has the spaces, but cannot be stepped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import gymnasium

from adaqn.base.errors import UserError
from adaqn.envs.source import EnvironmentSource

# Gymnasium's adapters for old Gym make an environment by the id in their arguments, and import the module it names.
_ADAPTERS = ("GymV21Environment", "GymV26Environment")


class SpacesOnly(gymnasium.Env):
    """An environment with spaces only: an agent can be built for it, but not trained in it."""

    def __init__(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> NoReturn:
        """Raise: there is no environment to reset."""
        raise UserError("this agent was loaded without an environment: pass one to load with env=")

    def step(self, action: Any) -> NoReturn:
        """Raise: there is no environment to step."""
        self.reset()


def require_trust(environment: EnvironmentSource, source: str, named_by_user: Sequence[str] = ()) -> None:
    """Raise if making the environment named by a file imports third-party modules, which can execute any code.

    Modules that the user names explicitly are trusted.
    """
    modules = list(environment.foreign_modules)
    if (environment.id or "").startswith(_ADAPTERS):
        modules.append("gym")
    if asked := [module for module in modules if module not in named_by_user]:
        names = ", ".join(map(repr, asked))
        raise UserError(
            f"making the environment that {source} names imports {names}, which can execute any code: "
            f"pass trust_env=True (--trust-env on the command line) if you trust it, or an environment with env="
        )
