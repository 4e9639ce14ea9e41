"""The base class of all algorithms with an ensemble of critics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from adaqn.agents.generations import Evolution, Inheritance, inheritance
from adaqn.agents.protocol import Arrays, Clock, Failure, Generation, Json, MemberReport, Report, TargetUpdate
from adaqn.agents.record import MemberRecord
from adaqn.agents.settings import SelectionSettings, Settings
from adaqn.base.checks import count
from adaqn.base.errors import AllMembersDiverged, CheckpointError
from adaqn.envs.environments import FinishedEpisode
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters, members_from
from adaqn.members.selection import Selection
from adaqn.networks.ensemble import Ensemble, EnsembleState, own_array
from adaqn.networks.layers import with_arrays
from adaqn.networks.network import Network
from adaqn.networks.xla.compilation import on_cpu
from adaqn.networks.xla.threads import lane_count
from adaqn.replay.memory import Need


def linear(initial: float, final: float, duration: int, step: int) -> float:
    """From `initial` at step 0 to `final` at `duration`, and `final` from then on."""
    if step >= duration:
        return final
    return initial + (final - initial) * (step / duration)


class DueStep(NamedTuple):
    """A step at which something may be due."""

    step: int
    update: bool  # the members are updated
    target: bool  # the target is chosen, or the choices since the last report are reported


def due_steps(clock: Clock, learning_starts: int, train_freq: int, target_interval: int) -> Iterator[DueStep]:
    """What is due at each of the steps (settled, step]; with several environments these can be many."""
    first = clock.replay_start + learning_starts
    for step in range(max(clock.settled, first) + 1, clock.step + 1):
        since_update = step % train_freq
        # Without an update since the last target update, there are no losses to compare.
        updated = step - since_update > max(first, step - target_interval)
        yield DueStep(step, since_update == 0, step % target_interval == 0 and updated)


_FLOAT = 4
# Online and target parameters, and two moments of the gradient, as in most optimizers.
_COPIES = 4
# Per step of an n-step return: its index, its reward, and whether the episode ended there.
_BYTES_PER_STEP = 8 + _FLOAT + 1


def networks_need(ensemble: Ensemble) -> Need:
    """Memory for the parameters of all members, with targets and optimizer states."""
    network = max(ensemble.networks, key=lambda network: network.size)
    inputs, units = max(_dense_or_convolved(network), key=math.prod)
    members = "one member" if ensemble.size == 1 else f"{ensemble.size} members"
    return Need(
        f"the parameters of {members} (a layer has {inputs} x {units} weights)",
        _COPIES * _FLOAT * ensemble.parameter_count,
        _remedy(network, inputs, units) + (" or fewer members" if ensemble.size > 1 else ""),
    )


def batch_need(networks: tuple[Network, ...], batch_size: int, n_steps: int) -> Need:
    """Memory for the transitions of one update, and for the activations of one network."""
    shape = networks[0].observation_shape
    observations = 2 * math.prod(shape) * (1 if len(shape) == 3 else _FLOAT)  # images may be bytes
    units = max(sum(math.prod(features) for features in _features(network)) for network in networks)
    returns = n_steps * _BYTES_PER_STEP
    return Need(
        f"a batch of {batch_size} transitions" + (f" over {n_steps} steps" if n_steps > 1 else ""),
        batch_size * (observations + returns + _FLOAT * units),
        f"lower {'n_steps' if returns > observations + _FLOAT * units else 'batch_size'}",
    )


def _features(network: Network) -> list[tuple[int, ...]]:
    """The output shape of every layer for one observation."""
    dense = [layer.shapes[0][-1:] for layer in with_arrays(network.layers) if layer.kind == "dense"]
    return [*network.images[1:], *dense]


def _dense_or_convolved(network: Network) -> list[tuple[int, int]]:
    """The weights of every layer as (inputs per unit or channel, units or channels)."""
    return [(math.prod(inputs), units) for *inputs, units in network.shapes[::2]]


def _remedy(network: Network, inputs: int, units: int) -> str:
    """The advice when the largest layer, with these weights, is too large."""
    layers = _dense_or_convolved(network)
    place, first_dense = layers.index((inputs, units)), len(network.architecture.convolutions)
    if place < first_dense or (place == first_dense > 0 and inputs > units):
        return "take smaller convolutions"
    if place == len(layers) - 1 and network.architecture.support is not None and units > inputs:
        return f"take fewer bins than {network.architecture.support.bins}"
    if place == len(layers) - 1 and units > inputs:
        return f"take an environment with fewer actions than {units}"
    if place == 0 and inputs > units:
        return f"take smaller observations than {network.observation_shape}, smaller hidden layers"
    return "take smaller hidden layers"


State = TypeVar("State")


def state_to_arrays(state: Any) -> dict[str, np.ndarray]:
    """Copy all arrays of the tree into a dictionary by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.array(_raw(leaf)) for path, leaf in leaves}


def state_from_arrays(like: State, arrays: dict[str, np.ndarray]) -> State:
    """Build a tree with the structure of `like` from these arrays; raise if one is missing or does not match."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    loaded = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        if name not in arrays:
            raise CheckpointError(f"the saved state has no array {name}, so it belongs to another kind of run")
        given, expected = arrays[name], np.asarray(_raw(leaf))
        if given.shape != expected.shape or given.dtype != expected.dtype:
            raise CheckpointError(
                f"the saved array {name} has shape {given.shape} and type {given.dtype}, "
                f"but this run needs {expected.shape} and {expected.dtype}"
            )
        # A copy that JAX owns: an aliased NumPy buffer must not be donated.
        array = own_array(given)
        loaded.append(jax.random.wrap_key_data(array) if _is_key(leaf) else array)
    return jax.tree_util.tree_unflatten(structure, loaded)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _raw(leaf: Any) -> Any:
    """The raw data of a typed random key, which NumPy cannot represent, or the array itself."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


class LearningState(Protocol):
    """The fields that the learning state of every family has. K members."""

    @property
    def ensemble(self) -> EnsembleState: ...

    @property
    def selected(self) -> Selection: ...

    @property
    def record(self) -> MemberRecord: ...

    def _replace(self, **changed: Any) -> Self: ...


Learning = TypeVar("Learning", bound=LearningState)
Programs = TypeVar("Programs")


class AgentState(NamedTuple, Generic[Learning]):
    """The state passed through the loop: the members, and the arrays that learning changes."""

    members: tuple[Hyperparameters, ...]
    learning: Learning
    generation: int = 0


class EnsembleAgent(ABC, Generic[Learning, Programs]):
    """The part of an agent that is independent of how it acts and of its learning targets."""

    def __init__(
        self,
        settings: Settings,
        members: tuple[Hyperparameters, ...],
        input_shape: tuple[int, ...],
        outputs: int,
        evolution: Evolution | None,
        scale: float = 1.0,
    ) -> None:
        self._common = settings
        self.evolution = evolution
        self._members = members
        self._input_shape = input_shape
        self._outputs = outputs
        self._scale = scale
        self.lanes = lane_count() if lane_count() > 1 and on_cpu() else 1  # threads among which an update is divided
        self._compiled: tuple[tuple[Hyperparameters, ...], Programs] | None = None

    @abstractmethod
    def start(self, members: tuple[Hyperparameters, ...], seed: int) -> Learning:
        """Initialize the learning state of these members."""

    @abstractmethod
    def compile(self, members: tuple[Hyperparameters, ...]) -> Programs:
        """Compile the functions for these members; equal architectures share them."""

    @abstractmethod
    def inherited(self, learning: Learning, heirs: Inheritance, rng: np.random.Generator) -> Learning:
        """Replace the networks by those of the next members; `replace_members` takes care of the record."""

    def programs(self, state: AgentState[Learning]) -> Programs:
        """The compiled functions for the members of a state, looked up once per generation."""
        if self._compiled is None or self._compiled[0] is not state.members:
            self._compiled = state.members, self.compile(state.members)
        return self._compiled[1]

    def ensemble_of(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble of these members for the spaces of this run."""
        # A group shares one program; when members can be replaced, each needs its own.
        return Ensemble.of(members, self._input_shape, self._outputs, grouped=self.evolution is None, scale=self._scale)

    @property
    def parameter_bytes(self) -> int:
        """The bytes of all members' parameters, with targets and optimizer states."""
        return networks_need(self.ensemble_of(self._members)).size

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Memory for all members and for one update of them."""
        ensemble = self.ensemble_of(self._members)
        return networks_need(ensemble), batch_need(ensemble.networks, self._common.sample_size, self._common.n_steps)

    def init(self, seed: int) -> AgentState[Learning]:
        """The state at step 0."""
        return AgentState(self._members, self.start(self._members, seed))

    def episodes_ended(
        self, state: AgentState[Learning], episodes: Sequence[FinishedEpisode], clock: Clock
    ) -> AgentState[Learning]:
        """Return the state unchanged: members are compared by their losses, not by returns."""
        del episodes, clock
        return state

    def diverged(self, state: AgentState[Learning]) -> np.ndarray:
        """Members with non-finite values or parameters. [K]"""
        ensemble = self.ensemble_of(state.members)
        finite = [np.isfinite(member.parameters).all() for member in ensemble.split(state.learning.ensemble)]
        return np.asarray(state.learning.record.diverged) | ~np.array(finite)

    def failure(self, state: AgentState[Learning]) -> Failure:
        """The failure when all members have diverged."""
        names = "; ".join(f"{k}: {member.to_dict()}" for k, member in enumerate(state.members))
        return Failure(AllMembersDiverged(f"all members diverged (their values are no longer finite): {names}"))

    def children(
        self, state: AgentState[Learning], fitness: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[Descendant, ...]:
        """The next member of every slot, given the current fitness [K] (lower is better, inf if diverged)."""
        assert self.evolution is not None, "generations are planned only when members can be replaced"
        return self.evolution.children(rng, state.members, fitness, clock.step)

    def replace_members(
        self,
        state: AgentState[Learning],
        children: tuple[Descendant, ...],
        reset_weights: bool,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[AgentState[Learning], Generation]:
        """Put the children into their slots; survivors keep their slots and records."""
        members = tuple(child.hyperparameters for child in children)
        old, new = self.ensemble_of(state.members), self.ensemble_of(members)
        heirs = inheritance(rng, old, new, children, reset_weights)
        learning = self.inherited(state.learning, heirs, rng)
        parent = np.array([child.parent for child in children])
        is_new = np.array([child.is_new for child in children])
        learning = learning._replace(
            discount=jnp.asarray(self.discounts(members)), record=learning.record.inherit(parent, is_new)
        )
        number = state.generation + 1
        return AgentState(members, learning, number), Generation(clock.step, number, children)

    def discounts(self, members: tuple[Hyperparameters, ...]) -> np.ndarray:
        """γ_k of each member, which defaults to γ̄. [K]"""
        gamma = self._common.gamma
        return np.asarray([gamma if m.discount is None else m.discount for m in members], np.float32)

    def target_member(self, state: AgentState[Learning]) -> int:
        """The target member; the first one if there are several."""
        return int(state.learning.selected.members[0])

    def target_discount(self, state: AgentState[Learning]) -> float:
        """The discount of the target member."""
        return float(self.discounts(state.members)[self.target_member(state)])

    def target_update(
        self,
        state: AgentState[Learning],
        clock: Clock,
        losses: Any,  # [K]
        acted: Any,  # [K]
        newly_diverged: Any,  # [K] bool
        selected: Any = None,  # [K]
    ) -> TargetUpdate | Failure:
        """The event of a target update, or the failure if all members have diverged."""
        if np.asarray(state.learning.record.diverged).all():
            return self.failure(state)
        return TargetUpdate(
            step=clock.step,
            target=self.target_member(state),
            cumulated_loss=tuple(np.asarray(losses).tolist()),
            acted=tuple(np.asarray(acted).tolist()),
            newly_diverged=tuple(np.flatnonzero(newly_diverged).tolist()),
            selected=None if selected is None else tuple(np.asarray(selected).tolist()),
            discount=self.target_discount(state),
        )

    def report(self, state: AgentState[Learning], clock: Clock) -> Report:
        """Summarize the members, with scalars for the logs."""
        del clock
        record: MemberRecord = jax.device_get(state.learning.record)
        targets = tuple(dict.fromkeys(np.asarray(state.learning.selected.members).tolist()))
        target = targets[0]
        chosen = max(1, int(record.choices))
        members = tuple(
            MemberReport(
                member,
                math.inf if record.diverged[k] else float(record.compared_loss[k]),
                float(record.selections[k]) / chosen,
                int(record.selections[k]),
                bool(record.diverged[k]),
            )
            for k, member in enumerate(state.members)
        )
        metrics = {
            "train/loss": float(record.last_loss[target]),
            "train/learning_rate": state.members[target].learning_rate,
            "ada/target_member": float(target),
            "ada/diverged": float(record.diverged.sum()),
        }
        metrics |= {f"ada/loss_{k}": float(loss) for k, loss in enumerate(record.last_loss)}
        return Report(members, targets, state.generation, metrics)

    def to_arrays(self, state: AgentState[Learning]) -> tuple[Arrays, Json]:
        """Convert the whole state to named arrays and JSON."""
        members = [member.to_dict() for member in state.members]
        saved = self.regrouped(state.learning, self.ensemble_of(state.members), self.saved_ensemble(state.members))
        return state_to_arrays(saved), {"members": members, "generation": state.generation}

    def saved_ensemble(self, members: tuple[Hyperparameters, ...]) -> Ensemble:
        """The ensemble in whose groups a state is saved, which does not depend on the number of lanes."""
        return self.ensemble_of(members)

    def regrouped(self, learning: Learning, old: Ensemble, new: Ensemble) -> Learning:
        """The state with the groups of another ensemble of the same members."""
        assert old == new, "algorithms whose groups depend on lanes regroup their networks"
        return learning

    def from_arrays(self, arrays: Arrays, meta: Json) -> AgentState[Learning]:
        """The inverse of `to_arrays`."""
        members = members_from(meta["members"])
        held, least = sum(array.nbytes for array in arrays.values()), self._least_bytes(members)
        if held < least:  # checked before memory for the parameters is allocated
            raise CheckpointError(
                f"the saved state is incomplete: it has {held:,} bytes, but its members' parameters need {least:,}"
            )
        ensemble, saved = self.ensemble_of(members), self.saved_ensemble(members)
        like = self.regrouped(self.start(members, seed=0), ensemble, saved)
        learning = self.regrouped(state_from_arrays(like, arrays), saved, ensemble)
        return AgentState(members, learning, count("the saved generation", meta["generation"]))

    def saved_bytes(self, meta: Json) -> int:
        """The size of the saved members' parameters."""
        return self._least_bytes(members_from(meta["members"]))

    def _least_bytes(self, members: tuple[Hyperparameters, ...]) -> int:
        """The size of these members' online parameters, a lower bound on the size of a saved state."""
        return 4 * self.ensemble_of(members).parameter_count


def behaviour_epsilon(settings: SelectionSettings, clock: Clock) -> float:
    """ε_b at this step."""
    duration = clock.horizon if settings.behaviour_steps is None else settings.behaviour_steps
    return linear(settings.behaviour_initial_eps, settings.behaviour_final_eps, duration, clock.step)
