"""The interfaces of selection rules.

Rules are pure: their randomness comes from uniform numbers drawn by the caller. The argmax of K such numbers is
uniformly distributed, and so are the positions of the two largest, so K numbers give a uniform choice of distinct
members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:  # the command line lists the rules without importing JAX
    from jax import Array


class Selection(NamedTuple):
    """The S chosen members, with weights that sum to 1."""

    members: Array  # [S] int32, best first
    weights: Array  # [S] float32

    def leading(self, size: int) -> Selection:
        """Only the first `size` members."""
        return Selection(self.members[:size], self.weights[:size])


class TargetRule(NamedTuple):
    """Chooses the members that the target is computed from."""

    # (uniforms [K], cumulated losses [K], alive [K], size S) -> Selection. A diverged member (not alive) must not be
    # chosen while there are enough others, and has weight 0 in a mixture.
    select: Callable[[Array, Array, Array, int], Selection]
    mixture: bool  # the target is the weighted mean of all members, not the first member or the first pair

    def target_size(self, leading: int, members: int) -> int:
        """The number of members in the target: all for a mixture, else `leading` (one or a pair)."""
        return members if self.mixture else leading


# (uniforms [1 + K], probability of exploring [], cumulated losses [K], alive [K], leading S target members) -> members
# [S].
BehaviourRule: TypeAlias = "Callable[[Array, Array, Array, Array, Selection], Array]"
