"""When an ensemble is updated and its target is chosen, in environment steps from `learning_starts` on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from adaqn.agents.protocol import Clock


class Beat(NamedTuple):
    """A step at which something may be due."""

    step: int
    update: bool  # the members are updated
    target: bool  # the target is chosen, or the choices since the last report are reported


def beats(clock: Clock, learning_starts: int, train_freq: int, target_interval: int) -> Iterator[Beat]:
    """What is due at each of the steps (settled, step]; with several environments these can be many."""
    first = clock.replay_start + learning_starts
    for step in range(max(clock.settled, first) + 1, clock.step + 1):
        since_update = step % train_freq
        # Without an update since the last target update, there are no losses to compare.
        updated = step - since_update > max(first, step - target_interval)
        yield Beat(step, since_update == 0, step % target_interval == 0 and updated)
