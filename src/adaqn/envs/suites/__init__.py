"""Environment suites beyond those that Gymnasium registers, one per file: `Atari/Pong` is found in `atari.py`.

A suite is a module with the names of its environments and how each is made:

    NAMES: tuple[str, ...]                # whole ids, each of which begins with the suite's name
    def spec(name: str) -> EnvSpec        # of one of them; other packages are imported only when it is made

They stay out of Gymnasium's registry, which refuses `MinAtar/Breakout` beside MinAtar's own `MinAtar/Breakout-v1`.
The environment may say of itself, as attributes that `adaqn.envs.making` reads:

    learning_reward_bound: float | None   # rewards are clipped to [-bound, bound] to learn from, but not in returns
    frame_stack: int                      # so many images, the newest last, make up the channels of an observation
"""

from __future__ import annotations

import importlib
import pkgutil

import gymnasium
from gymnasium.envs.registration import EnvSpec

from adaqn.errors import UserError, nearest, unknown_name

_LISTED = 12  # more names than these are not written out


def suites() -> list[str]:
    """The names of all suites, as their files have them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def names() -> list[str]:
    """The ids of all environments of all suites."""
    return [name for suite in suites() for name in importlib.import_module(f"{__name__}.{suite}").NAMES]


def find_spec(identifier: str) -> EnvSpec | None:
    """How to make an environment of a suite; none for an id that is Gymnasium's business."""
    prefix, slash, _ = identifier.partition("/")
    if not slash or identifier in gymnasium.registry or prefix.lower() not in suites():
        return None
    suite = importlib.import_module(f"{__name__}.{prefix.lower()}")
    if identifier in suite.NAMES:
        return suite.spec(identifier)
    if len(suite.NAMES) <= _LISTED:
        raise unknown_name("environment", identifier, suite.NAMES)
    raise UserError(
        f"unknown environment {identifier!r}{nearest(identifier, suite.NAMES)} "
        f"(allowed: the {len(suite.NAMES)} of this suite, from {suite.NAMES[0]} to {suite.NAMES[-1]})"
    )
