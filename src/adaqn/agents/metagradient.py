"""Meta-gradient DQN (Xu, van Hasselt and Silver, 2018): DQN whose discount is learned by a gradient of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.agents.base import AgentState, EnsembleAgent, due_steps, linear
from adaqn.agents.generations import Inheritance
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, Failure, Operation, PolicyWeights, Report
from adaqn.agents.record import MemberRecord
from adaqn.agents.settings import MetaGradientSettings
from adaqn.agents.targets import bellman_target
from adaqn.agents.value import greedy_weights, next_value
from adaqn.base.errors import UserError
from adaqn.envs.spaces import observation_scale, require_discrete_actions, require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection, target_rule
from adaqn.members.selection.draws import initial_selection
from adaqn.networks.ensemble import EnsembleParameters, EnsembleState, GroupState, fresh_members, optimizer_step
from adaqn.networks.losses import LOSS_FUNCTIONS, l2
from adaqn.networks.network import Network, Shape
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch

EMBEDDING = 16  # dimensions, as in the original


class ConditionedNetwork(Network):
    """A network whose first dense layer also gets e(γ) = γ w, a learned embedding w of the discount. [16]

    The embedding is concatenated to the input of that layer: to the observation itself, as in the original, or to the
    features of the convolutions, because a vector cannot be concatenated to an image. For a given discount it only
    shifts the layer's bias, so the network conditioned on this discount is an ordinary one (`fold`).

    Its arrays are those of the ordinary network, then w [1, 16], then the layer's kernel for the embedding. [16, units]
    """

    @cached_property
    def plain(self) -> Network:
        """The network without the embedding."""
        return Network(self.architecture, self.observation_shape, self.outputs, self.scale)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all arrays, in the order of the flat vector."""
        return (*self.plain.shapes, (1, EMBEDDING), (EMBEDDING, self.plain.shapes[self._first_dense][1]))

    @property
    def _first_dense(self) -> int:
        return 2 * len(self.architecture.convolutions)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Initial parameters; both kernels of the first dense layer are scaled as the one that they are together."""
        arrays, start = [], 0
        flat = super().init(rng)
        for shape in self.shapes:
            arrays.append(flat[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        features, units = self.shapes[self._first_dense]
        by_average = bool(self.architecture.convolutions)
        for place, inputs in ((self._first_dense, features), (-1, EMBEDDING)):
            own, both = (n + units if by_average else n for n in (inputs, features + EMBEDDING))
            arrays[place] *= np.float32(math.sqrt(own / both))
        return np.concatenate([array.ravel() for array in arrays])

    def fold(self, arrays: list[Array], discount: Array) -> list[Array]:
        """The arrays of the ordinary network that this one is when it is conditioned on a discount []."""
        *ordinary, embedding, kernel = arrays
        ordinary[self._first_dense + 1] = ordinary[self._first_dense + 1] + (discount * embedding[0]) @ kernel
        return ordinary

    def values(self, arrays: list[Array], observation: Array, discount: Array) -> Array:
        """The Q-values, conditioned on a discount []. [B, ...] -> [B, A]"""
        return self.plain.apply(self.fold(arrays, discount), observation)


class LearnedDiscount(NamedTuple):
    """The meta-parameter η and its optimizer."""

    logit: Array  # [] η
    optimizer: Any  # state of Adam
    learning_rate: Array  # []

    @property
    def value(self) -> Array:
        """γ_η = σ(η). []"""
        return jax.nn.sigmoid(self.logit)


class MetaState(NamedTuple):
    """Everything that learning changes. P parameters of the ordinary network, P' of the conditioned one."""

    ensemble: EnsembleState  # the policy: the network conditioned on γ_η as an ordinary one, an ensemble of one
    target: EnsembleParameters  # the policy at the last target update
    network: GroupState  # [P'] online parameters of the conditioned network, and its optimizer
    snapshot: Array  # [P'] its parameters at the last target update
    discount: LearnedDiscount
    selected: Selection  # always the only member
    record: MemberRecord
    outer_loss: Array  # [] of the last update
    gamma: Array  # [] γ̄


class InnerUpdate(NamedTuple):
    """The result of the inner update that does not depend on η, or is not differentiated."""

    network: GroupState  # [P'] after the update
    loss: Array  # [] L2 error before the update, with γ_η
    usable: Array  # [] whether the values of the target network are finite


def inner_update(
    network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array], logit: Array
) -> tuple[Array, InnerUpdate]:
    """θ'(η): one step of DQN with the discount σ(η), conditioned on the state's discount, a constant. [P']"""
    discount, condition, member = jax.nn.sigmoid(logit), state.discount.value, state.network
    arrays = network.unravel(member.parameters)
    q_next = network.values(network.unravel(state.snapshot), batch.next_observation, condition)
    online = network.values(arrays, batch.next_observation, condition) if double else None
    target = bellman_target(next_value(q_next, online), batch, discount)
    loss_function, of_action = LOSS_FUNCTIONS[network.architecture.loss], _of_action(batch, network.outputs)

    def mean_loss(arrays: list[Array]) -> tuple[Array, Array]:
        error = of_action(network.values(arrays, batch.observation, condition)) - target
        return loss_function(error).mean(), l2(error).mean()

    gradient, error = jax.grad(mean_loss, has_aux=True)(arrays)
    stepped = optimizer_step(network, member, gradient)
    return stepped.parameters, InnerUpdate(stepped, error, jnp.isfinite(l2(q_next)).all())


def outer_loss(
    network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array], parameters: Array
) -> Array:
    """The mean squared TD error of θ' [P'] with γ̄; the target is a constant. []"""
    arrays, gamma, condition = network.unravel(parameters), state.gamma, state.discount.value
    q_next = network.values(network.unravel(state.snapshot), batch.next_observation, condition)
    online = network.values(arrays, batch.next_observation, condition) if double else None
    target = jax.lax.stop_gradient(bellman_target(next_value(q_next, online), batch, gamma))
    predictions = _of_action(batch, network.outputs)(network.values(arrays, batch.observation, condition))
    return l2(predictions - target).mean()


def meta_gradient(
    network: ConditionedNetwork, double: bool, state: MetaState, inner: Batch[Array], outer: Batch[Array]
) -> tuple[Array, Array, InnerUpdate]:
    """The derivative of the outer loss with respect to η [], the outer loss [], and the inner update."""

    def step(logit: Array) -> tuple[Array, InnerUpdate]:
        return inner_update(network, double, state, inner, logit)

    logit = state.discount.logit
    parameters, change, learned = jax.jvp(step, (logit,), (jnp.ones_like(logit),), has_aux=True)
    # Parameters without any gradient, such as those of dead units, do not depend on η. But the derivative of the square
    # root in optimizers like Adam is infinite at 0, and infinity times 0 is not a number.
    change = jnp.where(jnp.isfinite(change), change, 0.0)
    loss, gradient = jax.value_and_grad(lambda flat: outer_loss(network, double, state, outer, flat))(parameters)
    return gradient @ change, loss, learned


def update(network: ConditionedNetwork, double: bool, state: MetaState, batch: Batch[Array]) -> MetaState:
    """The inner update on the first half of the batch, and a step of η with the outer loss on the second half.

    If the values of the target network are unusable, nothing is learned.
    """
    half = batch.action.shape[0] // 2
    inner, outer = Batch(*(part[:half] for part in batch)), Batch(*(part[half:] for part in batch))
    gradient, loss, learned = meta_gradient(network, double, state, inner, outer)
    discount = discount_step(state.discount, gradient)
    trained = state._replace(
        ensemble=_policy(network, state.ensemble, learned.network.parameters, discount.value),
        network=learned.network,
        discount=discount,
        record=state.record.add(learned.loss[None]),
        outer_loss=loss,
    )
    unlearned = state._replace(record=state.record.mark_diverged(~learned.usable[None]))
    return jax.tree.map(lambda new, old: jnp.where(learned.usable, new, old), trained, unlearned)


def discount_step(discount: LearnedDiscount, gradient: Array) -> LearnedDiscount:
    """One step of Adam on η; none if its gradient is not finite."""
    change, optimizer = optax.adam(discount.learning_rate).update(gradient, discount.optimizer)
    stepped = discount._replace(logit=discount.logit + jnp.asarray(change), optimizer=optimizer)
    return jax.tree.map(lambda new, old: jnp.where(jnp.isfinite(gradient), new, old), stepped, discount)


def act(
    network: ConditionedNetwork, state: MetaState, observations: Array, uniforms: Array, epsilon: Array
) -> tuple[MetaState, Array]:
    """ε-greedy actions, with uniform numbers [n, 2]; all are -1 if the network has diverged. [n]"""
    q = _values(network, state.ensemble[0].parameters, observations)
    sound = jnp.isfinite(q).all() & ~state.record.diverged[0]
    anything = (uniforms[:, 1] * q.shape[-1]).astype(jnp.int32)
    action = jnp.where(uniforms[:, 0] < epsilon, anything, q.argmax(axis=-1).astype(jnp.int32))
    record = state.record.mark_diverged(~sound[None])
    record = record._replace(acted=record.acted + jnp.where(sound, q.shape[0], 0))
    return state._replace(record=record), jnp.where(sound, action, -1)


class TargetFacts(NamedTuple):
    """Statistics reported at a target update. [1] each"""

    losses: Array
    acted: Array
    newly_diverged: Array


def update_target(state: MetaState) -> tuple[MetaState, TargetFacts]:
    """target <- θ, and reset the loss since the last target update."""
    parameters = state.network.parameters
    before = state.record.mark_diverged(~jnp.isfinite(parameters).all()[None])
    record, selected = before.select(target_rule("lowest"), jnp.zeros(1), jnp.ones(1, bool), 1)
    facts = TargetFacts(record.compared_loss, state.record.acted, before.diverged & ~state.record.reported)
    renewed = state._replace(
        target=tuple(jnp.copy(group.parameters) for group in state.ensemble),
        snapshot=jnp.copy(parameters),
        selected=selected,
        record=record.reset_counters()._replace(loss=jnp.zeros_like(record.loss)),
    )
    return renewed, facts


def greedy(network: ConditionedNetwork, state: MetaState, observations: Array) -> Array:
    """The greedy actions of the policy, or of its snapshot if it has diverged since. [n]"""
    q = _values(network, state.ensemble[0].parameters, observations)
    sound = jnp.isfinite(q).all()
    q = jax.lax.cond(sound, lambda: q, lambda: _values(network, state.target[0], observations))
    return q.argmax(axis=-1)


def _values(network: ConditionedNetwork, rows: Array, observations: Array) -> Array:
    """The values of an ordinary network with parameters [1, P]. [n, A]"""
    return network.plain.apply(network.plain.unravel(rows[0]), observations)


def policy_parameters(network: ConditionedNetwork, parameters: Array, discount: Array) -> Array:
    """The ordinary network that the conditioned one [P'] is for this discount. [1, P]"""
    return network.plain.ravel(network.fold(network.unravel(parameters), discount))[None]


def _policy(network: ConditionedNetwork, old: EnsembleState, parameters: Array, discount: Array) -> EnsembleState:
    return (old[0]._replace(parameters=policy_parameters(network, parameters, discount)),)


def _of_action(batch: Batch[Array], outputs: int) -> Callable[[Array], Array]:
    """The function that takes the values of the batch's actions. [B, A] -> [B]"""
    # A masked sum instead of indexing, whose gradient is a slow scatter.
    taken = batch.action[:, None] == jnp.arange(outputs)[None, :]
    return lambda q: jnp.where(taken, q, 0.0).sum(axis=1)


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
        state = update(network, double, state, batch)
        return act(network, state, observations, uniforms, epsilon)

    return Programs(
        act=jit_step(partial(act, network)),
        update=jit_step(partial(update, network, double)),
        update_and_act=jit_step(update_and_act),
        update_target=jit_step(update_target),
        greedy=small_program(partial(greedy, network)),
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
        for due_step in due_steps(clock, s.learning_starts, s.train_freq, s.target_update_interval):
            if due_step.update:
                due += [Operation.UPDATE] * s.gradient_steps
            if due_step.target:
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
