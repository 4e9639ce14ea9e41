"""Q-functions of discrete actions, with a snapshot of them as target: shared by DQN, SEARL and meta-gradient DQN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.base import AgentState, EnsembleAgent, Programs
from adaqn.agents.execution.packed import pack, unpack
from adaqn.agents.generations import Evolution, Inheritance, next_members
from adaqn.agents.protocol import PolicyWeights
from adaqn.agents.record import MemberRecord
from adaqn.agents.settings import ImageSettings
from adaqn.agents.targets import bellman_target
from adaqn.envs.spaces import observation_scale, require_discrete_actions, require_observations
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import Selection, target_rule
from adaqn.members.selection.draws import initial_selection
from adaqn.networks.ensemble import Ensemble, EnsembleParameters, EnsembleState, GroupState, own_array
from adaqn.networks.losses import l2
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.networks.xla.lanes import shared_lanes, spread
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import WORD, RowLayout


class ValueState(NamedTuple):
    """Everything that learning changes. K members, of which S make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states
    target: EnsembleParameters  # snapshot of the online parameters at the last target update
    selected: Selection  # the target member ψ (an index into the snapshot), or several with weights
    record: MemberRecord
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


class DQNRules(NamedTuple):
    """The static arguments of the compiled functions besides the networks. Hashable."""

    selection: str
    behaviour: str
    temperature: float = 1.0
    double: bool = False

    @property
    def mixture(self) -> bool:
        """Whether the target is a weighted mean of all members."""
        return target_rule(self.selection).mixture


class TargetChoice(NamedTuple):
    """Statistics of the K members, reported at a target update. [K] each"""

    losses: Array
    acted: Array
    newly_diverged: Array


class QFunctions(NamedTuple):
    """The pure functions that a value-based algorithm is made of; `execution` compiles them in different ways."""

    target_value: Callable[..., Any]  # (ensemble, rules, state, next observations) -> (values [B], unusable [K])
    learn: Callable[..., Any]  # as `learn`
    gradients: Callable[..., Any]  # as `gradients`, the first half of `learn`
    update: Callable[..., ValueState]  # (these functions, ensemble, rules, state, batch) -> state
    act: Callable[..., Any]  # (ensemble, rules, state, observations, uniforms, epsilons) -> (state, actions [n])
    behaviour_members: Callable[..., Array]  # (rules, losses, alive, selected, uniforms, ε_b) -> [n]
    select_target: Callable[..., Any]  # (rules, record, finite, candidates, uniforms) -> (record, selection, choice)
    mix: Callable[..., Any]  # (values [S, B], usable [S], selected, K) -> (values [B], unusable [K])
    update_target: Callable[..., Any]  # (ensemble, rules, state, uniforms, candidates) -> (state, choice)
    greedy: Callable[..., Array]  # (ensemble, state, observations) -> actions [n]


def next_value(q_target: Array, q_online: Array | None) -> Array:
    """max_a' Q_target(s', a'); given online values, Q_target of their argmax (double Q). [..., A] -> [...]"""
    if q_online is None:
        return q_target.max(axis=-1)
    return jnp.take_along_axis(q_target, q_online.argmax(axis=-1)[..., None], axis=-1)[..., 0]


def learn(
    ensemble: Ensemble,
    members: EnsembleState,
    batch: Batch[Array],
    value: Array,
    discount: Array,
    gamma: Array,
    taken: Array | None = None,
) -> tuple[EnsembleState, Array]:
    """One gradient step of every member, given the value [B] of the next state; and the L2 errors before it. [K]

    Members may train with different losses and discounts [K]; they are compared by the L2 error with γ̄.
    Where `taken` [] is False, no member changes.
    """
    targets = jax.vmap(lambda own: bellman_target(value, batch, own))(discount)
    trained, predictions = ensemble.update(
        members, batch.observation, targets, _of_action(batch, ensemble.outputs), taken
    )
    return trained, _errors(predictions, batch, value, gamma)


def gradients(
    ensemble: Ensemble, members: EnsembleState, batch: Batch[Array], value: Array, discount: Array, gamma: Array
) -> tuple[tuple[Any, ...], Array]:
    """The gradients of a gradient step, as `Ensemble.step` takes them, and the L2 errors. [K]"""
    targets = jax.vmap(lambda own: bellman_target(value, batch, own))(discount)
    found, predictions = ensemble.gradients(members, batch.observation, targets, _of_action(batch, ensemble.outputs))
    return found, _errors(predictions, batch, value, gamma)


def _of_action(batch: Batch[Array], outputs: int) -> Callable[[Array], Array]:
    """The function that chooses the value of the action taken. [B, A] -> [B]"""
    # A masked sum instead of indexing: its gradient is a product, while that of indexing is a scatter, which takes
    # longer than all other operations on these few values.
    chosen = batch.action[:, None] == jnp.arange(outputs)[None, :]
    return lambda q: jnp.where(chosen, q, 0.0).sum(axis=1)


def _errors(predictions: Array, batch: Batch[Array], value: Array, gamma: Array) -> Array:
    """The L2 errors by which members are compared, from their predictions [K, B]. [K]"""
    return l2(predictions - bellman_target(value, batch, gamma)[None, :]).mean(axis=1)


class MemberPrograms(NamedTuple):
    """Compiled functions of a single member, for ensembles in which members are replaced."""

    values: ValuesProgram
    learn: LearnProgram


class ValuesProgram(Protocol):
    """The Q-values of a member with these parameters [1, P]. [n, A]"""

    def __call__(self, parameters: Array, observations: np.ndarray) -> Array: ...

    def _cache_size(self) -> int:
        """Number of compiled programs."""
        ...


class LearnProgram(Protocol):
    """`learn` for one member, given a `packed_batch` and its discount [1]; returns the member and its loss [1]."""

    def __call__(
        self, member: GroupState, packed_batch: PackedBatch, discount: np.ndarray
    ) -> tuple[GroupState, Array]: ...

    def _cache_size(self) -> int:
        """Number of compiled programs."""
        ...


Experience = Batch[np.ndarray] | np.ndarray  # a batch, or its rows [B, W] where observations are vectors
PackedBatch = np.ndarray | tuple[Batch[np.ndarray], np.ndarray, np.ndarray]


def packed_batch(experience: Experience, value: np.ndarray, gamma: np.ndarray) -> PackedBatch:
    """A batch, the value [B] of the next state, and γ̄ []; with rows as one vector, which is cheaper to pass."""
    return (experience, value, gamma) if isinstance(experience, Batch) else pack([experience, value, gamma])[0]


def _unpacked_batch(given: Any, layout: RowLayout | None) -> tuple[Batch[Array], Array, Array]:
    """The inverse of `packed_batch`, inside a compiled function."""
    if layout is None:
        return given
    size = (given.shape[0] - 1) // (layout.width + 1)
    numbers = np.dtype(np.float32)
    rows, value, gamma = unpack(given, (), (((size, layout.width), WORD), ((size,), numbers), ((), numbers)))
    return layout.batch(rows), value, gamma


@lru_cache(maxsize=128)  # a long run in a search space sees more architectures than are worth keeping
def member_programs(
    alone: Ensemble, layout: RowLayout | None = None, learn: Callable[..., Any] = learn
) -> MemberPrograms:
    """Compile the functions of an ensemble of one; equal architectures share one result.

    With a layout, batches are passed as rows.
    """

    def values(parameters: Array, observations: Array) -> Array:
        return alone.value((parameters,), jnp.zeros((), jnp.int32), observations)

    def learn_alone(member: GroupState, given: Any, discount: Array) -> tuple[GroupState, Array]:
        batch, value, gamma = _unpacked_batch(given, layout)
        (trained,), losses = learn(alone, (member,), batch, value, discount, gamma)
        return trained, losses

    compiled: Any = small_program(values), jit_step(learn_alone)
    return MemberPrograms(*compiled)


def next_value_alone(
    programs: MemberPrograms, target: Array, online: Array | None, next_observation: np.ndarray
) -> tuple[np.ndarray, bool]:
    """`next_value` of one member [B], in NumPy, which compiles nothing; and whether it is usable as a target."""
    q = np.asarray(programs.values(target, next_observation))
    with np.errstate(over="ignore", invalid="ignore"):
        usable = bool(np.isfinite(q * q).all())
    if online is None:
        return q.max(axis=-1), usable
    best = np.asarray(programs.values(online, next_observation)).argmax(axis=-1)
    return np.take_along_axis(q, best[:, None], axis=-1)[:, 0], usable


def learn_one_by_one(
    programs: tuple[MemberPrograms, ...],
    state: ValueState,
    experience: Experience,
    value_of: Callable[[int], np.ndarray],
    lanes: int,
) -> tuple[EnsembleState, np.ndarray]:
    """One gradient step of every member, given its own next-state values [B]; and the L2 errors before it. [K]

    The members are divided among the lanes, at most one for each. Each has its own programs, so that results do not
    depend on it.
    """
    discount, gamma = np.asarray(state.discount), np.asarray(state.gamma)

    def learn_in(members: Sequence[int]) -> list[tuple[int, GroupState, Array]]:
        learned, value, given = [], None, None
        for k in members:
            own = value_of(k)
            if given is None or own is not value:  # a target that all share is packed once
                value, given = own, packed_batch(experience, own, gamma)
            learned.append((k, *programs[k].learn(state.ensemble[k], given, discount[k : k + 1])))
        return learned

    members = range(len(programs))
    if lanes == 1:
        found = learn_in(members)
    else:
        shares = spread([int(np.size(group.parameters)) for group in state.ensemble], lanes)
        in_lanes = shared_lanes(lanes).run([partial(learn_in, share) for share in shares])
        found = sorted((one for of_lane in in_lanes for one in of_lane), key=lambda one: one[0])
    return tuple(group for _, group, _ in found), np.concatenate([loss for _, _, loss in found])


def snapshot(parameters: EnsembleParameters) -> EnsembleParameters:
    """Copy the parameters to new memory."""
    return tuple(own_array(rows) for rows in parameters)


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
