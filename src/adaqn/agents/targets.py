"""Learning targets of the critics: the Bellman target, and the values of the target pair or mixture."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.agents.record import is_in
from adaqn.members.selection import Selection
from adaqn.networks.ensemble import Ensemble, EnsembleParameters
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch

Tree = TypeVar("Tree")


def bellman_target(next_value: Array, batch: Batch[Array], discount: Array) -> Array:
    """y = Σ_i γ^i r_i + γ^m V(s'), cut where the episode terminated; V [B] and γ [] are given. [B]"""
    powers = discount ** jnp.arange(batch.rewards.shape[1], dtype=jnp.float32)
    bootstrap = discount**batch.steps * (1.0 - batch.terminated) * next_value
    return (batch.rewards * powers[None, :]).sum(axis=-1) + bootstrap


def polyak(target: Tree, online: Tree, rate: float) -> Tree:
    """target <- τ online + (1 - τ) target (line 11 of Algorithm 2)."""
    return jax.tree.map(lambda old, new: rate * new + (1.0 - rate) * old, target, online)


def critic_inputs(observation: Array, action: Array) -> Array:
    """The input of a critic of continuous actions: the flattened observation, then the action. [B, d + A]"""
    flat = observation.reshape(observation.shape[0], -1)
    return jnp.concatenate([flat, action], axis=-1)


def evaluated_together(ensemble: Ensemble) -> bool:
    """Whether both members of an ensemble of two are evaluated whenever one is.

    A pair needs both in any order: no dynamic index, and equal architectures are one product. In lanes they are
    separate arrays, for which a dynamic index takes two thirds of the time.
    """
    return ensemble.size == 2 and ensemble.lanes == 1


def pair_values(ensemble: Ensemble, parameters: EnsembleParameters, pair: Array, inputs: Array) -> Array:
    """The values of two members. [2, B]"""
    if evaluated_together(ensemble):
        return ensemble.values(parameters, inputs)[:, :, 0][pair]
    return jnp.stack([ensemble.value(parameters, pair[i], inputs)[:, 0] for i in range(2)])


def critic_target(
    ensemble: Ensemble, parameters: EnsembleParameters, selected: Selection, inputs: Array, mixture: bool
) -> tuple[Array, Array]:
    """The minimum of the pair, or the weighted mean of all [B]; and which of these have unusable values. [K]

    Parameters can be finite but so large that values overflow, which can only be detected here.
    """
    if not mixture:
        pair = selected.members[:2]
        values = pair_values(ensemble, parameters, pair, inputs)
        return values.min(axis=0), _unusable(values, pair, ensemble.size)
    values = ensemble.values(parameters, inputs)[:, :, 0]
    return weighted_mean(values, selected), _unusable(values, jnp.arange(ensemble.size), ensemble.size)


def weighted_mean(values: Array, selected: Selection) -> Array:
    """Σ_k w_k V_k over the selected members, from the values [K, B]; NaN with weight 0 is ignored. [B]"""
    chosen = values[selected.members]
    weights = selected.weights[:, None]
    return jnp.where(weights > 0.0, weights * chosen, 0.0).sum(axis=0)


def _unusable(values: Array, members: Array, size: int) -> Array:
    """Which of K members have values [S, B] so large that the L2 error overflows. [K]"""
    unsound = ~jnp.isfinite(l2(values)).all(axis=1)
    return is_in(jnp.where(unsound, members, -1), size)
