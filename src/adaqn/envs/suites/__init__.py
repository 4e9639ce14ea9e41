"""Environment suites besides those registered with Gymnasium, one per file: `Atari/Pong` is found in `atari.py`.

A suite is a module that lists its environments and how to make each. Another package adds a suite with an entry
point in the group `adaqn.suites`, whose name is the suite's. The module has:

    NAMES: tuple[str, ...]                     # complete ids, each of which begins with the suite's name
    def spec(name: str) -> EnvSpec             # how to make one; other packages are imported only when it is made

and, if its games are also registered with Gymnasium without the preprocessing needed for learning:

    def refuse_replaced(identifier: str)       # raise a UserError for such an id that names the suite's own id
    def replaces(registered: EnvSpec) -> bool  # whether a registered environment is one of these: not suggested

Suites are not in Gymnasium's registry, which rejects `MinAtar/Breakout` beside MinAtar's own `MinAtar/Breakout-v1`.
An environment may have these attributes, which `adaqn.envs.making` reads:

    learning_reward_bound: float | None        # rewards are clipped to [-bound, bound] for learning, not in returns
    frame_stack: int                           # number of frames stacked in the channels, newest last
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from adaqn.base.errors import UserError, nearest, unknown_name
from adaqn.base.plugins import PluginFolder

_LISTED = 12  # an error message lists at most this many names
_SUITES = PluginFolder("environment suite", __name__, entry_points="adaqn.suites")


def suites() -> list[str]:
    """The names of all suites, from their files and entry points, without importing them."""
    return _SUITES.names()


def names() -> list[str]:
    """The ids of all environments of all suites."""
    return [name for suite in _loaded() for name in suite.NAMES]


def find_spec(identifier: str) -> EnvSpec | None:
    """How to make an environment of a suite; None for an id that belongs to no suite."""
    prefix, slash, _ = identifier.partition("/")
    found = {name.lower(): name for name in suites()}.get(prefix.lower())
    if not slash or identifier in gymnasium.registry or found is None:
        return None
    suite = _SUITES.load(found)
    if identifier in suite.NAMES:
        return suite.spec(identifier)
    if len(suite.NAMES) <= _LISTED:
        raise unknown_name("environment", identifier, suite.NAMES)
    raise UserError(
        f"unknown environment {identifier!r}{nearest(identifier, suite.NAMES)} "
        f"(allowed: the {len(suite.NAMES)} of this suite, from {suite.NAMES[0]} to {suite.NAMES[-1]})"
    )


def refuse_replaced(identifier: str) -> None:
    """Raise if a suite replaces this environment with one that has the usual preprocessing."""
    for suite in _loaded():
        if hasattr(suite, "refuse_replaced"):
            suite.refuse_replaced(identifier)


def suggested() -> list[str]:
    """The ids suggested for a misspelled one: all except those that a suite replaces."""
    replaced = [suite.replaces for suite in _loaded() if hasattr(suite, "replaces")]
    registered = [name for name, spec in gymnasium.registry.items() if not any(check(spec) for check in replaced)]
    return registered + names()


def _loaded() -> Iterator[Any]:
    """All suites that can be loaded; a failure is reported when one of the suite's environments is made."""
    for name in suites():
        try:
            yield _SUITES.load(name)
        except UserError:
            continue
