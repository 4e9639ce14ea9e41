"""What a rule returns, and what it must look like.

Rules are pure: what is random in them comes in as uniform numbers, drawn by the caller. The largest of K such numbers
is equally likely to be any of them, the two largest any pair, so K numbers make a uniform choice of distinct members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:  # the command line lists the names of the rules without waiting for JAX
    from jax import Array


class Selection(NamedTuple):
    """The chosen members. S of them, with weights that add up to 1."""

    members: Array  # [S] int32, the best first
    weights: Array  # [S] float32

    def leading(self, size: int) -> Selection:
        """The first members alone."""
        return Selection(self.members[:size], self.weights[:size])


class TargetRule(NamedTuple):
    """Chooses the members that the target is made of."""

    # (uniforms [K], cumulated losses [K], alive [K], size S) -> Selection. A member that is not alive must not be
    # chosen while enough others live, and has no weight in a mixture.
    select: Callable[[Array, Array, Array, int], Selection]
    mixture: bool  # the target averages all members by their weights, instead of using the first one or the first pair

    def target_size(self, leading: int, members: int) -> int:
        """How many members make up a target for which one or two would do."""
        return members if self.mixture else leading


# (uniforms [1 + K], probability of exploring [], cumulated losses [K], alive [K], leading target members) -> as many
# members as these are. [S]
BehaviourRule: TypeAlias = "Callable[[Array, Array, Array, Array, Selection], Array]"
