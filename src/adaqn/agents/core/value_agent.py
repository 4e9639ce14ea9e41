"""The base class of DQN and SEARL: Q-functions of discrete actions, with a snapshot of them as target."""

from __future__ import annotations

from typing import Protocol

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from adaqn.agents.core.ensemble_agent import AgentState, EnsembleAgent, Programs
from adaqn.agents.core.generations import Evolution, Inheritance, next_members
from adaqn.agents.core.q_learning import ValueState, snapshot
from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.settings import ImageSettings
from adaqn.agents.protocol import PolicyWeights
from adaqn.envs.spaces import observation_scale, require_discrete_actions, require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection.draws import initial_selection
from adaqn.networks.ensemble import Ensemble, EnsembleParameters, EnsembleState


class ValueAgent(EnsembleAgent[ValueState, Programs]):
    """The part that is independent of when members learn and of which target they use."""

    def __init__(
        self,
        settings: ImageSettings,
        members: tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        evolution: Evolution | None,
        mixture: bool = False,
    ) -> None:
        actions = int(require_discrete_actions(action_space).n)
        box = require_observations(observation_space)
        super().__init__(settings, members, box.shape, actions, evolution, observation_scale(box, settings.image_scale))
        self._mixture = mixture

    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> ValueState:
        """Initialize the members, with the first one as target member (line 1 of Algorithm 1)."""
        ensemble = self.ensemble_of(members)
        state = ensemble.init(members, np.random.default_rng(seed))
        return ValueState(
            ensemble=state,
            target=jax.tree.map(jnp.copy, ensemble.parameters(state)),
            selected=initial_selection(ensemble.size if self._mixture else 1),
            record=MemberRecord.empty(ensemble.size),
            discount=jnp.asarray(self.discounts(members)),
            gamma=jnp.asarray(self._common.gamma, jnp.float32),
        )

    def inherited(self, learning: ValueState, heirs: Inheritance, rng: np.random.Generator) -> ValueState:
        """Replace the online networks and the snapshot by those of the next members."""
        members = heirs.new.join(next_members(rng, heirs.old.split(learning.ensemble), heirs))
        return learning._replace(ensemble=members, target=snapshot(heirs.new.parameters(members)))

    def policy_weights(self, state: AgentState[ValueState]) -> PolicyWeights:
        """The target member's online network, or its snapshot if it has diverged since."""
        member, ensemble = self.target_member(state), self.ensemble_of(state.members)
        return greedy_weights(ensemble, member, state.learning, state.members[member])


class _WithSnapshot(Protocol):
    """A learning state with a snapshot of the members."""

    @property
    def ensemble(self) -> EnsembleState: ...

    @property
    def target(self) -> EnsembleParameters: ...


def greedy_weights(
    ensemble: Ensemble, member: int, learning: _WithSnapshot, hyperparameters: Hyperparameters
) -> PolicyWeights:
    """A member's online network as a greedy policy, or its snapshot if it has diverged since."""
    online = ensemble.member(ensemble.parameters(learning.ensemble), member)
    network = ensemble.network(member)
    # Parameters can be finite but so large that values overflow, which only the outputs reveal.
    outputs = network.apply(network.unravel(online), jnp.ones((1, *network.observation_shape)))
    sound = jnp.isfinite(online).all() & jnp.isfinite(outputs).all()
    parameters = online if sound else ensemble.member(learning.target, member)
    return PolicyWeights("greedy", network, np.array(parameters), hyperparameters)
