"""Environment suites beyond those that Gymnasium registers, one per file: `Atari/Pong` is found in `atari.py`.

A suite is a module with the names of its environments and how each is made. Another package adds one with an entry
point of the group `adaqn.suites`, whose name is the suite's:

    NAMES: tuple[str, ...]                     # whole ids, each of which begins with the suite's name
    def spec(name: str) -> EnvSpec             # of one of them; other packages are imported only when it is made

and, where its games are also registered with Gymnasium in a form that is not meant to be learned from:

    def refuse_replaced(identifier: str)       # raise a UserError for such an id, which names the suite's own
    def replaces(registered: EnvSpec) -> bool  # whether a registered environment is one of these: not suggested

Suites stay out of Gymnasium's registry, which refuses `MinAtar/Breakout` beside MinAtar's own `MinAtar/Breakout-v1`.
The environment may say of itself, as attributes that `adaqn.envs.making` reads:

    learning_reward_bound: float | None        # rewards are clipped to [-bound, bound] for learning, not in returns
    frame_stack: int                           # this many images, newest last, make up the channels of an observation
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from adaqn.errors import UserError, nearest, unknown_name
from adaqn.plugins import PluginFolder

_LISTED = 12  # more names than these are not written out
_SUITES = PluginFolder("environment suite", __name__, entry_points="adaqn.suites")


def suites() -> list[str]:
    """The names of all suites, as their files or entry points have them; nothing is imported for them."""
    return _SUITES.names()


def names() -> list[str]:
    """The ids of all environments of all suites."""
    return [name for suite in _loaded() for name in suite.NAMES]


def find_spec(identifier: str) -> EnvSpec | None:
    """How to make an environment of a suite; none for an id that is Gymnasium's business."""
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
    """Raise if a suite has this environment in the form that is meant to be learned from."""
    for suite in _loaded():
        if hasattr(suite, "refuse_replaced"):
            suite.refuse_replaced(identifier)


def suggested() -> list[str]:
    """The ids that a misspelled one may stand for: all but those that a suite replaces."""
    replaced = [suite.replaces for suite in _loaded() if hasattr(suite, "replaces")]
    registered = [name for name, spec in gymnasium.registry.items() if not any(check(spec) for check in replaced)]
    return registered + names()


def _loaded() -> Iterator[Any]:
    """All suites; one that cannot be loaded is reported when somebody asks for one of its environments."""
    for name in suites():
        try:
            yield _SUITES.load(name)
        except UserError:
            continue
