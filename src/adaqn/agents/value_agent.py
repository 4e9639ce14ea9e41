"""What DQN and SEARL share: members that are Q functions of discrete actions, and a snapshot of them as target."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.dqn_learning import DQNState
from adaqn.agents.ensemble_agent import EnsembleAgent, EnsembleRun
from adaqn.agents.events import Event
from adaqn.agents.evolving import Evolution, Inheritance, next_members
from adaqn.agents.protocol import Clock, PolicyWeights
from adaqn.envs.spaces import observation_scale, require_discrete_actions, require_observations
from adaqn.hyperparameters import Hyperparameters
from adaqn.selection import Selection


class ValueAgent(EnsembleAgent):
    """The part that does not depend on when members learn, and from whose target."""

    def __init__(
        self,
        settings: Any,
        members: tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        evolution: Evolution | None,
    ) -> None:
        actions = int(require_discrete_actions(action_space).n)
        box = require_observations(observation_space)
        super().__init__(settings, members, box.shape, actions, evolution, observation_scale(box))

    def _start(self, members: tuple[Hyperparameters, ...], seed: int) -> EnsembleRun:
        """Members with fresh weights, and the first of them as target (line 1 of Algorithm 1)."""
        ensemble = self.ensemble_of(members)
        state = ensemble.init(members, np.random.default_rng(seed))
        size = ensemble.size
        learning = DQNState(
            ensemble=state,
            target=jax.tree.map(jnp.copy, ensemble.parameters(state)),
            selected=Selection(jnp.zeros(1, jnp.int32), jnp.ones(1)),
            cumulated_loss=jnp.zeros(size),
            compared_loss=jnp.zeros(size),
            last_loss=jnp.zeros(size),
            diverged=jnp.zeros(size, bool),
            reported=jnp.zeros(size, bool),
            acted=jnp.zeros(size, jnp.int32),
            selections=jnp.zeros(size, jnp.int32),
            target_updates=jnp.zeros((), jnp.int32),
            discount=jnp.asarray(self.discounts(members)),
            gamma=jnp.asarray(self.settings.gamma, jnp.float32),
        )
        return EnsembleRun(members, self._programs(members), learning)

    def _renewed(
        self, state: EnsembleRun, clock: Clock, outcome: tuple[DQNState, Array, Array, Array]
    ) -> tuple[EnsembleRun, tuple[Event, ...]]:
        """The run with a new target, and what is told of it."""
        learning, *facts = outcome
        state = state._replace(learning=learning)
        return state, (self.target_update(state, clock, *facts),)

    def _inherited(self, state: EnsembleRun, heirs: Inheritance, rng: np.random.Generator) -> DQNState:
        """Online networks and the snapshot of the next members."""
        members = heirs.new.join(next_members(rng, heirs.old.split(state.learning.ensemble), heirs))
        snapshot = tuple(jnp.array(np.asarray(rows), copy=True) for rows in heirs.new.parameters(members))
        return state.learning._replace(ensemble=members, target=snapshot)

    def policy_weights(self, state: EnsembleRun) -> PolicyWeights:
        """The target member's online network, or its snapshot if it diverged since."""
        ensemble, member = self.ensemble_of(state.members), self.target_member(state)
        online = ensemble.member(ensemble.parameters(state.learning.ensemble), member)
        network = ensemble.network(member)
        # Parameters can be finite and yet too large to compute with, which shows only in what comes out.
        outputs = network.apply(network.unravel(online), jnp.ones((1, *network.observation_shape)))
        sound = jnp.isfinite(online).all() & jnp.isfinite(outputs).all()
        parameters = online if sound else ensemble.member(state.learning.target, member)
        return PolicyWeights("greedy", network, np.array(parameters), state.members[member])
