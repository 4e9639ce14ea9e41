"""Building blocks of AdaSAC and AdaTD3: parameters with their optimizer, and statistics between two reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.agents.core.generations import Inheritance, next_members
from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.targets import evaluated_together
from adaqn.networks.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.networks.network import Network
from adaqn.networks.optimizers import build_optimizer, optimizer_spec


class OptimizedParameters(NamedTuple):
    """Parameters and the state of their optimizer."""

    parameters: Array
    optimizer: Any


@cache  # avoids recompilation for a second agent and for every trial of a search
def _compiled_init(name: str) -> Callable[[Any], Any]:
    """The initial state of an optimizer, which does not depend on its learning rate."""
    return jax.jit(build_optimizer(name, 1.0, {}).init)


class ParameterOptimizer(NamedTuple):
    """An optimizer for the parameters of a network, or for a scalar. Hashable."""

    name: str
    learning_rate: float
    network: Network | None  # None for a scalar

    def init(self, parameters: Array) -> OptimizedParameters:
        """The parameters with a newly initialized optimizer."""
        return OptimizedParameters(parameters, _compiled_init(self.name)(self._as_arrays(parameters)))

    def step(self, current: OptimizedParameters, gradient: Array) -> OptimizedParameters:
        """One gradient descent step."""
        parameters = self._as_arrays(current.parameters)
        change, optimizer_state = self._build().update(self._as_arrays(gradient), current.optimizer, parameters)
        moved: Any = optax.apply_updates(parameters, change)
        if isinstance(moved, list):
            moved = moved[0][0] if self.network is None else self.network.ravel(moved)
        return OptimizedParameters(moved, optimizer_state)

    def _build(self) -> optax.GradientTransformation:
        return build_optimizer(self.name, self.learning_rate, {})

    def _as_arrays(self, vector: Array) -> Any:
        """The flat vector, or a list of arrays for optimizers that are not element-wise."""
        if optimizer_spec(self.name).elementwise:
            return vector
        return [vector[None]] if self.network is None else self.network.unravel(vector)


class UpdateCounts(NamedTuple):
    """Updates of the critics and of the actor since the last report."""

    made: Array  # [2]
    learned: Array  # [2] updates that changed the parameters

    @classmethod
    def none(cls) -> UpdateCounts:
        """All counts at zero."""
        return cls(jnp.zeros(2, jnp.int32), jnp.zeros(2, jnp.int32))

    def critics(self, learned: Array) -> Self:
        """Count one update of the critics."""
        return self._replace(
            made=self.made + jnp.asarray([1, 0], jnp.int32),
            learned=self.learned + jnp.stack([learned, False]).astype(jnp.int32),
        )

    def actor(self, learned: Array) -> Self:
        """Count one update of the actor."""
        return self._replace(
            made=self.made + jnp.asarray([0, 1], jnp.int32),
            learned=self.learned + jnp.stack([False, learned]).astype(jnp.int32),
        )


class Stretch(NamedTuple):
    """Statistics of the K members over the updates since the last report. [K] each"""

    losses: Array
    acted: Array  # fraction of actor updates with the member in the behaviour pair
    newly_diverged: Array
    selected: Array  # fraction of critic updates after which the member was in the target pair


def end_stretch(record: MemberRecord, counts: UpdateCounts, finite: Array) -> tuple[MemberRecord, Stretch]:
    """Return the statistics since the last report, and reset their counters. finite: [K]"""
    before = record.mark_diverged(~finite)
    critic_updates, actor_updates = jnp.maximum(counts.made, 1)
    stretch = Stretch(
        losses=jnp.where(before.diverged, jnp.inf, before.loss),
        acted=before.acted / actor_updates,
        newly_diverged=before.diverged & ~before.reported,
        selected=before.chosen / critic_updates,
    )
    return before.renewed(), stretch


def without_diverged(ensemble: Ensemble, parameters: EnsembleParameters, diverged: Array) -> EnsembleParameters:
    """If two members are always evaluated together, set the parameters of diverged ones to zero.

    Both are evaluated even if only one is used, and the zero gradient of the unused one times NaN would be NaN.
    """
    if not evaluated_together(ensemble):
        return parameters
    return tuple(
        jnp.where(jnp.stack([diverged[k] for k in group])[:, None], 0.0, rows)
        for group, rows in zip(ensemble.groups, parameters, strict=True)
    )


def inherited_critics(
    ensemble: EnsembleState, target: EnsembleParameters, heirs: Inheritance, rng: np.random.Generator
) -> tuple[EnsembleState, EnsembleParameters]:
    """Online critics of the next members, and their Polyak targets, which are inherited in the same way.

    If a member of the target pair is replaced, the child in its slot is part of the pair until the next update chooses
    a new pair.
    """
    members = heirs.new.join(next_members(rng, heirs.old.split(ensemble), heirs))
    targets = [np.asarray(heirs.old.member(target, k)) for k in range(heirs.old.size)]
    inherited = [heirs.parameters(slot, targets) for slot in range(heirs.new.size)]
    return members, heirs.new.parameters_in_groups(inherited)
