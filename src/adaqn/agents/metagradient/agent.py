"""Meta-gradient DQN as an agent of the training loop: one member, whose discount is learned."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.agents.core.ensemble_agent import AgentState, EnsembleAgent
from adaqn.agents.core.generations import Inheritance
from adaqn.agents.core.population import Population
from adaqn.agents.core.record import MemberRecord
from adaqn.agents.core.rhythm import beats
from adaqn.agents.core.schedules import linear
from adaqn.agents.core.value_agent import greedy_weights
from adaqn.agents.events import Event, Failure
from adaqn.agents.metagradient import learning
from adaqn.agents.metagradient.learning import LearnedDiscount, MetaState, TargetFacts, policy_parameters
from adaqn.agents.metagradient.network import ConditionedNetwork
from adaqn.agents.metagradient.settings import MetaGradientSettings
from adaqn.agents.protocol import Clock, Operation, PolicyWeights, Report
from adaqn.base.errors import UserError
from adaqn.envs.spaces import observation_scale, require_discrete_actions, require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection.draws import initial_selection
from adaqn.networks.ensemble import GroupState, fresh_members
from adaqn.networks.xla.compilation import small_program, transition
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch

State = AgentState[MetaState]


class Programs(NamedTuple):
    """The compiled functions; all but the last donate their input state."""

    act: Any
    update: Any
    update_and_act: Any
    update_target: Any
    greedy: Any


@lru_cache(maxsize=32)
def programs_of(network: ConditionedNetwork, double: bool) -> Programs:
    """Compile the functions for a network; equal architectures share one result."""

    def update_and_act(
        state: MetaState, batch: Batch[Array], observations: Array, uniforms: Array, epsilon: Array
    ) -> tuple[MetaState, Array]:
        state = learning.update(network, double, state, batch)
        return learning.act(network, state, observations, uniforms, epsilon)

    return Programs(
        act=transition(partial(learning.act, network)),
        update=transition(partial(learning.update, network, double)),
        update_and_act=transition(update_and_act),
        update_target=transition(learning.update_target),
        greedy=small_program(partial(learning.greedy, network)),
    )


class MetaGradientAgent(EnsembleAgent[MetaState, Programs]):
    """Meta-gradient DQN. Its discount starts at the member's `discount`, by default γ̄."""

    def __init__(
        self,
        settings: MetaGradientSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        self.settings = settings
        actions = int(require_discrete_actions(action_space).n)
        box = require_observations(observation_space)
        super().__init__(
            settings, population.members, box.shape, actions, None, observation_scale(box, settings.image_scale)
        )
        head = population.members[0].head
        if head != "scalar":
            raise UserError(f"meta-gradient DQN needs a member with a scalar head, but its head is {head!r}")
        first = float(self.discounts(population.members)[0])
        if not 0.0 < first < 1.0:
            raise UserError(
                "the learned discount must start between 0 and 1, exclusively (at the member's discount, or at gamma), "
                f"but it is {first:g}"
            )

    def network_of(self, members: tuple[Hyperparameters, ...]) -> ConditionedNetwork:
        """The conditioned network of the only member."""
        plain = self.ensemble_of(members).network(0)
        return ConditionedNetwork(plain.architecture, plain.observation_shape, plain.outputs, plain.scale)

    @property
    def parameter_bytes(self) -> int:
        """Online and target parameters and two moments of the conditioned network, and the policy with its snapshot."""
        network = self.network_of(self._members)
        return 4 * (4 * network.size + 2 * network.plain.size)

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Memory for the networks and for one update."""
        networks, batch = super().memory_needs
        return networks._replace(size=self.parameter_bytes), batch

    def _least_bytes(self, members: tuple[Hyperparameters, ...]) -> int:
        """The size of the conditioned network, which can be several times that of the ordinary one."""
        return 4 * self.network_of(members).size

    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> MetaState:
        """Initialize the network, with its target equal to it, and the discount."""
        network, rng = self.network_of(members), np.random.default_rng(seed)
        weights = network.init(rng)
        keys = rng.integers(2**32, size=(1, 2), dtype=np.uint32)
        group = fresh_members(network, members, weights[None], keys)
        member: GroupState = jax.tree.map(lambda leaf: leaf[0], group)
        discount = self.discounts(members)[0]
        # Computed with NumPy in the precision of the state, so that nothing is compiled for it.
        logit = np.float32(np.log(np.float64(discount)) - np.log1p(-np.float64(discount)))
        learned = LearnedDiscount(
            jnp.asarray(logit),
            optax.adam(0.0).init(jnp.zeros(())),
            jnp.asarray(self.settings.meta_learning_rate, jnp.float32),
        )
        folded = policy_parameters(network, member.parameters, learned.value)
        return MetaState(
            ensemble=(GroupState(folded, (), jnp.copy(group.learning_rate), {}),),
            target=(jnp.copy(folded),),
            network=member,
            snapshot=jnp.copy(member.parameters),
            discount=learned,
            selected=initial_selection(1),
            record=MemberRecord.empty(1),
            outer_loss=jnp.zeros(()),
            gamma=jnp.asarray(self.settings.gamma, jnp.float32),
        )

    def compile(self, members: tuple[Hyperparameters, ...]) -> Programs:
        """Compile the functions for the network of the only member."""
        return programs_of(self.network_of(members), self.settings.double_q)

    def inherited(self, learning: MetaState, heirs: Inheritance, rng: np.random.Generator) -> NoReturn:
        """Never called: the member is not replaced."""
        raise AssertionError("meta-gradient DQN has no search space")

    def plan(self, state: State, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """An update every G steps and a target update every T steps, once learning has started."""
        del state, ended
        s = self.settings
        due: list[Operation] = []
        for beat in beats(clock, s.learning_starts, s.train_freq, s.target_update_interval):
            if beat.update:
                due += [Operation.UPDATE] * s.gradient_steps
            if beat.target:
                due.append(Operation.TARGET_UPDATE)
        return tuple(due)

    def exploration(self, clock: Clock) -> float:
        """ε at this step."""
        s = self.settings
        return linear(s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps, clock.step)

    def act(
        self, state: State, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, np.ndarray | Failure]:
        """ε-greedy actions of the network conditioned on the learned discount."""
        uniforms, epsilon = self._draws(observations, clock, rng)
        changed, actions = self.programs(state).act(state.learning, observations, uniforms, epsilon)
        return self._acted(state._replace(learning=changed), actions)

    def update(
        self,
        state: State,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[State, np.ndarray | Failure | None]:
        """One step of the network, and one of the discount; then `act` if requested."""
        del operation
        programs = self.programs(state)
        if act_on is None:
            return state._replace(learning=programs.update(state.learning, batch)), None
        uniforms, epsilon = self._draws(act_on, clock, rng)
        changed, actions = programs.update_and_act(state.learning, batch, act_on, uniforms, epsilon)
        return self._acted(state._replace(learning=changed), actions)

    def _draws(self, observations: np.ndarray, clock: Clock, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers [n, 2], and ε []."""
        return rng.random((len(observations), 2), np.float32), np.asarray(self.exploration(clock), np.float32)

    def _acted(self, state: State, actions: Array) -> tuple[State, np.ndarray | Failure]:
        chosen = np.asarray(actions)
        return state, (chosen if chosen[0] >= 0 else self.failure(state))

    def perform(
        self, state: State, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[State, tuple[Event, ...]]:
        """Update the target network."""
        del rng
        assert operation is Operation.TARGET_UPDATE, "meta-gradient DQN plans no other operations besides updates"
        facts: TargetFacts
        changed, facts = self.programs(state).update_target(state.learning)
        state = state._replace(learning=changed)
        return state, (self.target_update(state, clock, *facts),)

    def policy(
        self, state: State, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions; given a generator, random ones with probability ε."""
        actions = np.array(self.programs(state).greedy(state.learning, observations))
        if rng is not None:
            explore = rng.random(len(actions)) < self.exploration(clock)
            actions[explore] = rng.integers(self._outputs, size=int(explore.sum()))
        return actions

    def policy_weights(self, state: State) -> PolicyWeights:
        """The ordinary network that the conditioned one is for the learned discount."""
        return greedy_weights(self.ensemble_of(state.members), 0, state.learning, state.members[0])

    def target_discount(self, state: State) -> float:
        """The learned discount."""
        return float(state.learning.discount.value)

    def report(self, state: State, clock: Clock) -> Report:
        """Summarize the member, with the learned discount."""
        report = super().report(state, clock)
        discount = self.target_discount(state)
        own = {
            "train/discount": discount,
            "train/outer_loss": float(state.learning.outer_loss),
            "rollout/exploration_rate": self.exploration(clock),
        }
        first = float(self.discounts(state.members)[0])
        line = f"learned discount: {discount:.6f} (started at {first:g}, cross-validated with {self.settings.gamma:g})"
        return report._replace(metrics=report.metrics | own, lines=(line,))
