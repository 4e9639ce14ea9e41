"""K different critics as one compiled program: initialization, values by index, one update of all.

Members with the same architecture form a group. A group is trained with `vmap` over its members; groups are
unrolled one after the other, which on a CPU is faster than padding different widths to one shape. On a CPU a member
with convolutions is always its own group, because batched convolutions with a kernel per member are slow there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from adaqn.members.hyperparameters import Architecture, Hyperparameters
from adaqn.networks.categorical import cross_entropy, expectation, histogram
from adaqn.networks.losses import LOSS_FUNCTIONS
from adaqn.networks.network import Network
from adaqn.networks.optimizers import build_optimizer, check_options, guarded_step, optimizer_spec
from adaqn.networks.xla.lanes import spread


class GroupState(NamedTuple):
    """The g members of one group."""

    parameters: Array  # [g, P]
    optimizer: Any  # state of the optimizer, every array with a leading [g]
    learning_rate: Array  # [g]
    options: dict[str, Array]  # numeric options of the optimizer and max_grad_norm by name, each [g]


EnsembleState = tuple[GroupState, ...]
EnsembleParameters = tuple[Array, ...]  # [g, P] per group


@dataclass(frozen=True)
class Ensemble:
    """The static part of an ensemble: the architecture of every member. Hashable; all methods are pure."""

    architectures: tuple[Architecture, ...]  # [K]
    observation_shape: tuple[int, ...]
    outputs: int
    grouped: bool = True  # False: every member is its own group
    scale: float = 1.0  # factor applied to observations: 1 / 255 for byte images
    lanes: int = 1  # threads among which the members are divided; a group belongs to one of them

    @classmethod
    def of(
        cls,
        members: Sequence[Hyperparameters],
        observation_shape: tuple[int, ...],
        outputs: int,
        grouped: bool = True,
        scale: float = 1.0,
    ) -> Ensemble:
        """The ensemble of these members."""
        for member in members:
            check_options(member)
        return cls(tuple(m.architecture for m in members), observation_shape, outputs, grouped, scale)

    @property
    def size(self) -> int:
        """The number of members K."""
        return len(self.architectures)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The members of each group, in the order of first appearance."""
        groups: dict[tuple[Architecture, int, int | None], list[int]] = {}
        for k, architecture in enumerate(self.architectures):
            alone = not self.grouped or architecture.convolutions
            groups.setdefault((architecture, self._lane_of[k], k if alone else None), []).append(k)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def _lane_of(self) -> tuple[int, ...]:
        """The lane of each member, by the number of its parameters."""
        if self.lanes == 1:
            return (0,) * self.size
        shares = spread([self._network(architecture).size for architecture in self.architectures], self.lanes)
        lane_of = {k: lane for lane, share in enumerate(shares) for k in share}
        return tuple(lane_of[k] for k in range(self.size))

    @property
    def used_lanes(self) -> int:
        """The number of lanes that have members."""
        return min(self.lanes, self.size)

    def groups_of_lane(self, lane: int) -> tuple[int, ...]:
        """The indices of a lane's groups."""
        return tuple(g for g, group in enumerate(self.groups) if self._lane_of[group[0]] == lane)

    def lane(self, lane: int) -> tuple[tuple[int, ...], Ensemble]:
        """The members of a lane, and the ensemble of only these; its groups are those of `groups_of_lane`."""
        members = tuple(k for k in range(self.size) if self._lane_of[k] == lane)
        chosen = tuple(self.architectures[k] for k in members)
        return members, Ensemble(chosen, self.observation_shape, self.outputs, self.grouped, self.scale)

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The network of each group."""
        return tuple(self._network(self.architectures[group[0]]) for group in self.groups)

    def _network(self, architecture: Architecture) -> Network:
        return Network(architecture, self.observation_shape, self.outputs, self.scale)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each member: its group, its position in the group, and its position in the concatenated groups."""
        group_of, place_of = np.zeros(self.size, np.int32), np.zeros(self.size, np.int32)
        for g, group in enumerate(self.groups):
            for place, k in enumerate(group):
                group_of[k], place_of[k] = g, place
        laid_out = np.concatenate([np.asarray(group) for group in self.groups])
        return group_of, place_of, np.argsort(laid_out).astype(np.int32)

    def network(self, member: int) -> Network:
        """The network of a member."""
        return self.networks[int(self._places[0][member])]

    def member(self, parameters: EnsembleParameters, member: int) -> Array:
        """The parameters of one member, given by a static index. [P]"""
        group, place = (int(of[member]) for of in self._places[:2])
        return parameters[group][place]

    def alone(self, member: int) -> Ensemble:
        """The ensemble of only this member."""
        return Ensemble((self.architectures[member],), self.observation_shape, self.outputs, False, self.scale)

    @property
    def parameter_count(self) -> int:
        """The total number of parameters of all members."""
        return sum(len(g) * n.size for g, n in zip(self.groups, self.networks, strict=True))

    def init(self, members: Sequence[Hyperparameters], rng: np.random.Generator) -> EnsembleState:
        """Initialize parameters and optimizers; weights are drawn in member order, whatever the grouping."""
        weights = [self.network(k).init(rng) for k in range(self.size)]
        keys = rng.integers(2**32, size=(self.size, 2), dtype=np.uint32)
        return tuple(
            fresh_members(
                network, [members[k] for k in group], np.stack([weights[k] for k in group]), keys[list(group)]
            )
            for group, network in zip(self.groups, self.networks, strict=True)
        )

    def split(self, state: EnsembleState) -> list[GroupState]:
        """Each member as a group of one, as NumPy arrays, which need no compilation for new shapes."""
        places = zip(*self._places[:2], strict=True)
        return [jax.tree.map(lambda leaf, p=place: _row(leaf, p), state[group]) for group, place in places]

    def join(self, members: Sequence[GroupState]) -> EnsembleState:
        """The inverse of `split`: the state of an ensemble from groups of one."""
        return tuple(
            jax.tree.map(lambda *leaves: _stacked(leaves), *(members[k] for k in group)) for group in self.groups
        )

    def parameters_in_groups(self, members: Sequence[np.ndarray]) -> EnsembleParameters:
        """The parameters [P] of every member, as arrays of the groups."""
        return tuple(own_array(np.stack([members[k] for k in group])) for group in self.groups)

    def parameters(self, state: EnsembleState) -> EnsembleParameters:
        """The online parameters of all members."""
        return tuple(group.parameters for group in state)

    def value(self, parameters: EnsembleParameters, member: Array, observation: Array) -> Array:
        """The outputs of the member with this (traced) index. [B, ...] -> [B, outputs]"""
        group_of, place_of, _ = self._places

        def branch(g: int) -> Callable[[Array], Array]:
            network = self.networks[g]
            rows = parameters[g]

            def outputs(place: Array) -> Array:
                flat = rows[0] if rows.shape[0] == 1 else jax.lax.dynamic_index_in_dim(rows, place, keepdims=False)
                return network.apply(network.unravel(flat), observation)

            return outputs

        place = jnp.asarray(place_of)[member]
        branches = [branch(g) for g in range(len(self.groups))]
        if len(branches) == 1:
            return branches[0](place)
        return jax.lax.switch(jnp.asarray(group_of)[member], branches, place)

    def values(self, parameters: EnsembleParameters, observation: Array) -> Array:
        """The outputs of all members. [B, ...] -> [K, B, outputs]"""
        outputs = [
            _over_members(lambda flat, n=network: n.apply(n.unravel(flat), observation), rows.shape[0])(rows)
            for network, rows in zip(self.networks, parameters, strict=True)
        ]
        return self.in_member_order(outputs)

    def update(
        self,
        state: EnsembleState,
        observation: Array,  # [B, ...]
        targets: Array,  # [K, B]
        predict: Callable[[Array], Array],  # chooses an output of each sample: [B, outputs] -> predictions [B]
        taken: Array | None = None,  # [] where False, no member changes
    ) -> tuple[EnsembleState, Array]:
        """One gradient step of every member on the batch mean of its own loss; and the predictions before it. [K, B]"""
        new_state, predictions = [], []
        for g, old in enumerate(state):
            gradient, prediction = self._gradient(g, old, observation, targets, predict)
            new_state.append(self.step(g, old, gradient, taken))
            predictions.append(prediction)
        return tuple(new_state), self.in_member_order(predictions)

    def gradients(
        self, state: EnsembleState, observation: Array, targets: Array, predict: Callable[[Array], Array]
    ) -> tuple[tuple[Any, ...], Array]:
        """The first half of `update`: the gradients of every group, as `step` takes them, and the predictions. [K, B]

        Gradients of a part of the batch can be averaged with those of the others.
        """
        found = [self._gradient(g, old, observation, targets, predict) for g, old in enumerate(state)]
        gradients, predictions = zip(*found, strict=True)
        return gradients, self.in_member_order(predictions)

    def _gradient(
        self, g: int, old: GroupState, observation: Array, targets: Array, predict: Callable[[Array], Array]
    ) -> tuple[Any, Array]:
        group, network = self.groups[g], self.networks[g]
        rows = jnp.stack([targets[k] for k in group])
        return _over_members(_member_gradient(network, observation, predict), len(group))(old, rows)

    def step(self, g: int, old: GroupState, gradient: Any, taken: Array | None = None) -> GroupState:
        """The second half of `update` for one group: a step of its optimizers."""
        # Element-wise optimizers are mapped over the group, even over a group of one: indexing and stacking would
        # copy the moments.
        network = self.networks[g]
        elementwise = optimizer_spec(network.architecture.optimizer).elementwise
        step = _member_step(network, taken)
        return (jax.vmap(step) if elementwise else _over_members(step, len(self.groups[g])))(old, gradient)

    def in_member_order(self, of_groups: Sequence[Array]) -> Array:
        """Concatenate the groups' arrays [g, ...] to one array [K, ...] in the order of the members."""
        order = self._places[2]
        joined = jnp.concatenate(of_groups) if len(of_groups) > 1 else of_groups[0]
        return joined if (order == np.arange(self.size)).all() else joined[order]

    def finite(self, parameters: EnsembleParameters) -> Array:
        """Whether all parameters of each member are finite. [K]"""
        return self.in_member_order([jnp.isfinite(rows).all(axis=1) for rows in parameters])


def _over_members(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`vmap` over the leading axis; a single member is left unbatched, which gives a smaller program."""
    if count > 1:
        return jax.vmap(function)

    def alone(*arguments: Any) -> Any:
        result = function(*jax.tree.map(lambda x: x[0], arguments))
        return jax.tree.map(lambda x: x[None], result)

    return alone


def _member_gradient(
    network: Network, observation: Array, predict: Callable[[Array], Array]
) -> Callable[[GroupState, Array], tuple[Any, Array]]:
    """The gradient of a member's mean loss, in the form that its optimizer takes, and the predictions. [B]"""
    loss_of = _member_loss(network, observation, predict)
    elementwise = optimizer_spec(network.architecture.optimizer).elementwise

    def gradient_of(member: GroupState, target: Array) -> tuple[Any, Array]:
        def mean_loss(arrays: list[Array]) -> tuple[Array, Array]:
            losses, prediction = loss_of(arrays, target)
            return losses.mean(), prediction

        # Differentiate with respect to the arrays, not the flat vector: the gradient of a slice is a padded vector,
        # and summing these takes longer than concatenating the pieces once.
        gradient, prediction = jax.grad(mean_loss, has_aux=True)(network.unravel(member.parameters))
        return network.ravel(gradient) if elementwise else gradient, prediction

    return gradient_of


def _member_loss(
    network: Network, observation: Array, predict: Callable[[Array], Array]
) -> Callable[[list[Array], Array], tuple[Array, Array]]:
    """The function from the network's arrays and targets [B] to training losses and predictions. [B] each"""
    support, loss_function = network.architecture.support, LOSS_FUNCTIONS[network.architecture.loss]

    def scalar(arrays: list[Array], target: Array) -> tuple[Array, Array]:
        prediction = predict(network.apply(arrays, observation))
        return loss_function(prediction - target), prediction

    def categorical(arrays: list[Array], target: Array) -> tuple[Array, Array]:
        assert support is not None
        # The output is chosen before the softmax, so that only its bins are normalized.
        logits = jax.vmap(predict, in_axes=2, out_axes=1)(network.logits(arrays, observation))
        return cross_entropy(logits, histogram(support, target)), expectation(support, logits)

    return scalar if support is None else categorical


def _member_step(network: Network, taken: Array | None) -> Callable[[GroupState, Any], GroupState]:
    """One step of a member's optimizer, or no change where `taken` [] is False."""
    elementwise = optimizer_spec(network.architecture.optimizer).elementwise

    def step(member: GroupState, gradient: Any) -> GroupState:
        optimizer = build_optimizer(network.architecture.optimizer, member.learning_rate, member.options)
        before: Any = member.parameters if elementwise else network.unravel(member.parameters)
        if taken is None:
            change, optimizer_state = optimizer.update(gradient, member.optimizer, before)
            after: Any = optax.apply_updates(before, change)
        else:
            after, optimizer_state = guarded_step(optimizer, gradient, member.optimizer, before, taken)
        return member._replace(parameters=after if elementwise else network.ravel(after), optimizer=optimizer_state)

    return step


def optimizer_step(network: Network, member: GroupState, gradient: list[Array]) -> GroupState:
    """One step of a member's optimizer, given the gradient as arrays of the layers.

    The member is a single one, whose arrays have no leading axis.
    """
    elementwise = optimizer_spec(network.architecture.optimizer).elementwise
    return _member_step(network, None)(member, network.ravel(gradient) if elementwise else gradient)


def own_array(values: Any) -> Array:
    """A JAX array in memory of its own, which can be donated.

    Unlike `jnp.array`, this does not compile a small program for every new shape.
    """
    return jax.device_put(np.array(values))


def fresh_members(
    network: Network, members: Sequence[Hyperparameters], parameters: np.ndarray, keys: np.ndarray
) -> GroupState:
    """A group with these parameters [g, P] and new optimizers; keys [g, 2] seed stochastic optimizers."""
    names = network.architecture.optimizer_options
    values = [member.traced_options for member in members]
    rate = jnp.asarray([member.learning_rate for member in members], jnp.float32)
    options = {name: jnp.asarray([v[name] for v in values], jnp.float32) for name in names}
    weights = own_array(parameters)
    return GroupState(weights, _optimizer_init(network)(weights, rate, options, jnp.asarray(keys)), rate, options)


def _row(leaf: Array, place: int) -> Any:
    """One row of an array as [1, ...], in NumPy unless it is a random key."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf[place : place + 1]
    return np.asarray(leaf)[place : place + 1]


def _stacked(rows: Sequence[Any]) -> Array:
    if isinstance(rows[0], np.ndarray):
        return own_array(np.concatenate(rows))
    # Random keys, or arrays that were just created.
    return rows[0] if len(rows) == 1 else jnp.concatenate([jnp.asarray(row) for row in rows])


@lru_cache(maxsize=128)
def _optimizer_init(network: Network) -> Callable[..., Any]:
    """The compiled function (parameters, learning rates, options, keys) -> optimizer states of a group."""
    name = network.architecture.optimizer
    elementwise = optimizer_spec(name).elementwise

    def init(flat: Array, rate: Array, numbers: dict[str, Array], key: Array) -> Any:
        optimizer = build_optimizer(name, rate, numbers, jax.random.wrap_key_data(key))
        return optimizer.init(flat if elementwise else network.unravel(flat))

    return jax.jit(jax.vmap(init))
