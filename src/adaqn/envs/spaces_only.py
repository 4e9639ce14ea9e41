"""What stands in for the environment of an agent that was loaded without one: its spaces, and nothing to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import gymnasium

from adaqn.envs.source import EnvironmentSource
from adaqn.errors import UserError

# Gymnasium makes these by the id in their arguments, and imports what that names.
_ADAPTERS = ("GymV21Environment", "GymV26Environment")


class SpacesOnly(gymnasium.Env):
    """An environment that an agent can be made for, but not trained in."""

    def __init__(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> NoReturn:
        """There is none to reset."""
        raise UserError("this agent was loaded without an environment: give load one with env=")

    def step(self, action: Any) -> NoReturn:
        """There is none to step."""
        self.reset()


def require_trust(environment: EnvironmentSource, source: str, named_by_user: Sequence[str] = ()) -> None:
    """Refuse to make the environment that a file names if that imports modules, which can execute anything.

    Modules that the user names too are trusted.
    """
    modules = list(environment.foreign_modules)
    if (environment.id or "").startswith(_ADAPTERS):
        modules.append("gym")
    if asked := [module for module in modules if module not in named_by_user]:
        names = ", ".join(map(repr, asked))
        raise UserError(
            f"making the environment that {source} names imports {names}, which can execute anything: "
            f"give trust_env=True (--trust-env on the command line) if you trust it, or an environment with env="
        )
