"""Normalization of observations by their running mean and variance, around any agent.

The replay buffer holds observations as the environment returned them; they are normalized with the current statistics
whenever the agent learns from them or acts on them. Only acting in the training environments updates the statistics,
so the learned policy and evaluations use them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np

from adaqn.agents.protocol import (
    Agent,
    Arrays,
    Clock,
    Event,
    Failure,
    InputScaling,
    Json,
    LearnsFromRows,
    Operation,
    PolicyWeights,
    Report,
    lanes_of,
)
from adaqn.base.checks import count
from adaqn.base.errors import CheckpointError, UserError
from adaqn.envs.environments import FinishedEpisode
from adaqn.envs.spaces import require_box_observations
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout

LIMIT = 10.0  # normalized observations are clipped to [-LIMIT, LIMIT]
EPSILON = 1e-8  # added to the variance
_MEAN, _SQUARES = "observations/mean", "observations/squares"


class RunningMoments(NamedTuple):
    """Mean and variance of all observations so far, in double precision (Chan et al., 1979)."""

    number: int
    mean: np.ndarray  # [...] of one observation
    squares: np.ndarray  # [...] sum of the squared distances to the mean

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> RunningMoments:
        """No observation yet."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    def add(self, observations: np.ndarray) -> Self:
        """With these observations [n, ...] in addition."""
        n, before = len(observations), self.number
        mean = observations.mean(axis=0, dtype=np.float64)
        squares = np.square(observations - mean).sum(axis=0)
        gap, total = mean - self.mean, before + n
        return self._replace(
            number=total,
            mean=self.mean + gap * (n / total),
            squares=self.squares + squares + np.square(gap) * (before * n / total),
        )

    @property
    def scaling(self) -> InputScaling:
        """The normalization with these moments; the variance of a single observation counts as 1."""
        variance = self.squares / self.number if self.number > 1 else np.ones_like(self.squares)
        return InputScaling(self.mean.astype(np.float32), (1.0 / np.sqrt(variance + EPSILON)).astype(np.float32), LIMIT)


class NormalizedState(NamedTuple):
    """The state of an agent, with the statistics of its observations."""

    inner: Any
    moments: RunningMoments
    scaling: InputScaling  # follows from the moments


class NormalizingAgent:
    """An agent whose observations are normalized before it gets them."""

    def __init__(self, agent: Agent[Any], observation_space: gymnasium.Space) -> None:
        box = require_box_observations(observation_space)
        if len(box.shape) > 2:
            raise UserError(
                f"normalize_observations needs vector observations, but those of the shape {box.shape} are images"
            )
        self.inner = agent
        self._shape = box.shape

    @property
    def parameter_bytes(self) -> int:
        """Memory used by the inner agent's state."""
        return self.inner.parameter_bytes

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """The needs of the inner agent."""
        return self.inner.memory_needs

    @property
    def lanes(self) -> int:
        """The lanes of the inner agent."""
        return lanes_of(self.inner)

    def init(self, seed: int) -> NormalizedState:
        """The state at step 0, without any statistics."""
        return _state(self.inner.init(seed), RunningMoments.none(self._shape))

    def plan(self, state: NormalizedState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """The inner agent's operations."""
        return self.inner.plan(state.inner, clock, ended)

    def act(
        self, state: NormalizedState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[NormalizedState, np.ndarray | Failure]:
        """Add the observations to the statistics, and act on the normalized ones."""
        state = _state(state.inner, state.moments.add(observations))
        inner, actions = self.inner.act(state.inner, state.scaling(observations), clock, rng)
        return state._replace(inner=inner), actions

    @property
    def row_layout(self) -> RowLayout | None:
        """The layout that the inner agent uses."""
        return self.inner.row_layout if isinstance(self.inner, LearnsFromRows) else None

    @property
    def updates_at_once(self) -> int:
        """The limit of the inner agent."""
        return self.inner.updates_at_once if isinstance(self.inner, LearnsFromRows) else 1

    def update(
        self,
        state: NormalizedState,
        operation: Operation,
        batch: Batch[np.ndarray] | np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
        updates: int = 1,
    ) -> tuple[NormalizedState, np.ndarray | Failure | None]:
        """Learn from normalized observations; then `act` if requested."""
        if act_on is not None:
            state = _state(state.inner, state.moments.add(act_on))
        seen = None if act_on is None else state.scaling(act_on)
        several = {} if updates == 1 else {"updates": updates}  # not every agent accepts it
        agent: Any = self.inner
        normalized = self._normalized(batch, state.scaling)
        inner, actions = agent.update(state.inner, operation, normalized, clock, rng, seen, **several)
        return state._replace(inner=inner), actions

    def _normalized(self, batch: Batch[np.ndarray] | np.ndarray, scaling: InputScaling) -> Any:
        """A batch, or rows of transitions, with normalized observations."""
        if isinstance(batch, Batch):
            seen, following = scaling(batch.observation), scaling(batch.next_observation)
            return batch._replace(observation=seen, next_observation=following)
        assert self.row_layout is not None, "rows come where their layout is known"
        return self.row_layout.with_observations(batch, scaling)

    def perform(
        self, state: NormalizedState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[NormalizedState, tuple[Event, ...]]:
        """The inner agent's operation."""
        inner, events = self.inner.perform(state.inner, operation, clock, rng)
        return state._replace(inner=inner), events

    def episodes_ended(
        self, state: NormalizedState, episodes: Sequence[FinishedEpisode], clock: Clock
    ) -> NormalizedState:
        """Pass the episodes on."""
        return state._replace(inner=self.inner.episodes_ended(state.inner, episodes, clock))

    def policy(
        self, state: NormalizedState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The inner agent's policy, with the statistics as they are."""
        return self.inner.policy(state.inner, state.scaling(observations), rng, clock)

    def policy_weights(self, state: NormalizedState) -> PolicyWeights:
        """The inner agent's network and the normalization of its inputs."""
        return self.inner.policy_weights(state.inner)._replace(scaling=state.scaling)

    def report(self, state: NormalizedState, clock: Clock) -> Report:
        """The inner agent's summary."""
        return self.inner.report(state.inner, clock)

    def to_arrays(self, state: NormalizedState) -> tuple[Arrays, Json]:
        """The inner agent's arrays and the statistics."""
        arrays, meta = self.inner.to_arrays(state.inner)
        number, mean, squares = state.moments
        return {**arrays, _MEAN: mean, _SQUARES: squares}, {**meta, "observations": number}

    def saved_bytes(self, meta: Json) -> int:
        """The size of the inner agent's parameters."""
        return self.inner.saved_bytes(meta)

    def from_arrays(self, arrays: Arrays, meta: Json) -> NormalizedState:
        """The inverse of `to_arrays`."""
        for name in (_MEAN, _SQUARES):
            array = arrays.get(name)
            if array is None or array.shape != self._shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise CheckpointError(
                    "the saved state has no sound statistics of observations, so it belongs to another kind of run"
                )
        moments = RunningMoments(
            count("the number of observations", meta["observations"]),
            np.array(arrays[_MEAN]),
            np.array(arrays[_SQUARES]),
        )
        others = {name: array for name, array in arrays.items() if name not in (_MEAN, _SQUARES)}
        return _state(self.inner.from_arrays(others, meta), moments)


def _state(inner: Any, moments: RunningMoments) -> NormalizedState:
    return NormalizedState(inner, moments, moments.scaling)
