"""What a rule returns, and what it must look like.

Rules are pure: what is random in them comes in as uniform numbers, drawn by the caller. The largest of K such numbers
is equally likely to be any of them, the two largest any pair, so K numbers make a uniform choice of distinct members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jax import Array


class Selection(NamedTuple):
    """The chosen members. S of them, with weights that add up to 1."""

    members: Array  # [S] int32
    weights: Array  # [S] float32


# (uniforms [K], cumulated losses [K], alive [K], size S) -> Selection. A member that is not alive must not be chosen
# while enough others live.
TargetRule = Callable[[Array, Array, Array, int], Selection]
# (uniforms [1 + K], probability of exploring [], cumulated losses [K], alive [K], target) -> as many members as the
# target has. [S]
BehaviourRule = Callable[[Array, Array, Array, Array, Selection], Array]
