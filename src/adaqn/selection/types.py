"""What a rule returns, and what it must look like.

Rules are pure: what is random in them comes in as uniform numbers, drawn by the caller. The largest of K such numbers
is equally likely to be any of them, the two largest any pair, so K numbers make a uniform choice of distinct members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:  # the names of the rules are listed by `adaqn train --help`, which does not wait for JAX
    from jax import Array


class Selection(NamedTuple):
    """The chosen members. S of them, with weights that add up to 1."""

    members: Array  # [S] int32
    weights: Array  # [S] float32


# (uniforms [K], cumulated losses [K], alive [K], size S) -> Selection. A member that is not alive must not be chosen
# while enough others live.
TargetRule: TypeAlias = "Callable[[Array, Array, Array, int], Selection]"
# (uniforms [1 + K], probability of exploring [], cumulated losses [K], alive [K], target) -> as many members as the
# target has. [S]
BehaviourRule: TypeAlias = "Callable[[Array, Array, Array, Array, Selection], Array]"


def largest(values: Array, size: int) -> Array:
    """The indices of the `size` largest values, largest first; of one alone without sorting, which is slow. [S]"""
    import jax
    import jax.numpy as jnp

    if size == 1:
        return jnp.argmax(values, keepdims=True).astype(jnp.int32)
    return jax.lax.top_k(values, size)[1].astype(jnp.int32)
