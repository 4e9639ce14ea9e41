"""Statistics that every family keeps of its members: losses, divergence, actions and selections."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.members.selection import Selection, TargetRule

Tree = TypeVar("Tree")


class MemberRecord(NamedTuple):
    """Losses and counters of K members."""

    loss: Array  # [K] cumulated loss that members are compared by
    compared_loss: Array  # [K] cumulated loss at the last choice of the target, inf if diverged
    last_loss: Array  # [K] L2 error on the last batch
    diverged: Array  # [K] has produced non-finite values; never cleared
    reported: Array  # [K] divergence already reported
    acted: Array  # [K] actions, or actor updates, since the last report
    chosen: Array  # [K] times chosen as target since the last report
    selections: Array  # [K] times chosen as target
    choices: Array  # [] number of choices of a target

    @classmethod
    def empty(cls, size: int) -> MemberRecord:
        """The initial record of K members."""
        # Distinct arrays, because compiled transitions donate their buffers.
        return cls(
            loss=jnp.zeros(size),
            compared_loss=jnp.zeros(size),
            last_loss=jnp.zeros(size),
            diverged=jnp.zeros(size, bool),
            reported=jnp.zeros(size, bool),
            acted=jnp.zeros(size, jnp.int32),
            chosen=jnp.zeros(size, jnp.int32),
            selections=jnp.zeros(size, jnp.int32),
            choices=jnp.zeros((), jnp.int32),
        )

    @property
    def alive(self) -> Array:
        """Members that have not diverged. [K]"""
        return ~self.diverged

    def add(self, losses: Array) -> Self:
        """L_k <- L_k + loss (line 11 of Algorithm 1). losses: [K]"""
        return self._with(losses, self.loss + losses)

    def follow(self, losses: Array, rate: float) -> Self:
        """L_k <- (1 - τ) L_k + τ loss (line 9 of Algorithm 2). losses: [K]"""
        return self._with(losses, (1.0 - rate) * self.loss + rate * losses)

    def _with(self, losses: Array, cumulated: Array) -> Self:
        return self._replace(loss=cumulated, last_loss=losses, diverged=self.diverged | ~jnp.isfinite(losses))

    def mark_diverged(self, which: Array) -> Self:
        """Mark these members [K] as diverged, permanently."""
        return self._replace(diverged=self.diverged | which)

    def select(self, rule: TargetRule, uniforms: Array, candidates: Array, size: int) -> tuple[Self, Selection]:
        """Choose the target among the non-diverged candidates [K] by a rule, and count the choice.

        For a mixture of all members, the `size` members with the largest weights are counted.
        """
        losses = jnp.where(self.diverged, jnp.inf, self.loss)
        selected = self.without_dead_partner(rule.select(uniforms, losses, self.alive & candidates, size), size)
        now = is_in(selected.members[:size], losses.shape[0]).astype(jnp.int32)
        counted = self._replace(
            compared_loss=losses,
            chosen=self.chosen + now,
            selections=self.selections + now,
            choices=self.choices + 1,
        )
        return counted, selected

    def without_dead_partner(self, selected: Selection, size: int) -> Selection:
        """The selection, where a diverged member of the leading pair is replaced by the other one."""
        if size != 2:
            return selected
        pair = valid_pair(selected.members[:2], self.diverged)
        return selected._replace(members=jnp.concatenate([pair, selected.members[2:]]))

    def reset_counters(self) -> Self:
        """Reset the counters that are kept since the last report."""
        return self._replace(
            reported=self.diverged, acted=jnp.zeros_like(self.acted), chosen=jnp.zeros_like(self.chosen)
        )

    def inherit(self, parent: np.ndarray, is_new: np.ndarray) -> Self:
        """The record of the next generation: children start with their parent's losses and zero counts. [K] each"""

        def of_child(values: Array, begin: np.ndarray) -> Array:
            return jnp.asarray(np.where(is_new, begin, np.asarray(values)))

        nothing = np.zeros(len(parent), np.int32)
        return self._replace(
            loss=of_child(self.loss, np.asarray(self.loss)[parent]),
            compared_loss=of_child(self.compared_loss, np.asarray(self.compared_loss)[parent]),
            last_loss=of_child(self.last_loss, np.asarray(self.last_loss)[parent]),
            diverged=of_child(self.diverged, nothing.astype(bool)),
            reported=of_child(self.reported, nothing.astype(bool)),
            acted=of_child(self.acted, nothing),
            chosen=of_child(self.chosen, nothing),
            selections=of_child(self.selections, nothing),
        )


def tree_where(condition: Array, first: Tree, second: Tree) -> Tree:
    """The first tree where the condition [] holds, else the second; leaves that both share stay as they are."""
    return jax.tree.map(lambda one, other: one if one is other else jnp.where(condition, one, other), first, second)


def valid_pair(pair: Array, diverged: Array) -> Array:
    """The pair [2], or the same member twice if the other has diverged. [2]"""
    dead = diverged[pair]
    return jnp.where(dead.any() & ~dead.all(), jnp.where(dead[0], pair[1], pair[0]), pair)


def is_in(members: Array, size: int) -> Array:
    """Which of K members are in this array of indices, in which -1 stands for none. [K]"""
    return (members[:, None] == jnp.arange(size)[None, :]).any(axis=0)
