"""An algorithm: Q-learning with linear values, in NumPy, as an agent of adaqn's training loop.

Everything that is constant is in the agent, everything that learning changes in the state, which is passed in and
returned. The loop provides the rest: environments, replay, logs, exact resuming, evaluations, the command line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from adaqn import Hyperparameters
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Event, MemberReport, Operation, PolicyWeights, Report
from adaqn.agents.registry import Algorithm
from adaqn.agents.settings import Settings, setting
from adaqn.base.checks import between
from adaqn.base.errors import CheckpointError
from adaqn.envs.environments import FinishedEpisode
from adaqn.envs.spaces import require_discrete_actions, require_vector_observations
from adaqn.networks.network import Network
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch


@dataclass(frozen=True, kw_only=True)
class LinearQSettings(Settings):
    """The settings of every algorithm, and one more; each has a default, a help text and a check."""

    exploration_eps: float = setting(0.3, "probability of a random action", between(0.0, 1.0))


class LinearQState(NamedTuple):
    """What learning changes: Q(s, a) = w_a s + b_a. d observations, A actions."""

    weights: np.ndarray  # [d + 1, A], the last row is b
    loss: float  # of the last batch


class LinearQAgent:
    """One member without hidden layers; its learning rate is the only hyperparameter that has an effect."""

    def __init__(
        self,
        settings: LinearQSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        self.settings = settings
        (self.member,) = population.members
        self._actions = int(require_discrete_actions(action_space).n)
        self._size = int(np.prod(require_vector_observations(observation_space).shape))
        self._network = Network(self.member.architecture, (self._size,), self._actions)

    @property
    def parameter_bytes(self) -> int:
        """Four bytes for each weight."""
        return 4 * (self._size + 1) * self._actions

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Next to nothing."""
        return (Need("the weights", self.parameter_bytes, "take smaller observations"),)

    def init(self, seed: int) -> LinearQState:
        """All values are zero; the seed is not needed."""
        del seed
        return LinearQState(np.zeros((self._size + 1, self._actions), np.float32), 0.0)

    def plan(self, state: LinearQState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """One update for each multiple of `train_freq` among the steps since the last call."""
        del state, ended
        first = clock.replay_start + self.settings.learning_starts
        steps = range(max(clock.settled, first) + 1, clock.step + 1)
        return tuple(Operation.UPDATE for step in steps if step % self.settings.train_freq == 0)

    def act(
        self, state: LinearQState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[LinearQState, np.ndarray]:
        """ε-greedy actions. [n]"""
        return state, self.policy(state, observations, rng, clock)

    def update(
        self,
        state: LinearQState,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[LinearQState, np.ndarray | None]:
        """A semi-gradient step on the mean of ½ (y - Q(s, a))², then the next actions if they are asked for."""
        del operation
        rows, gamma = np.arange(len(batch.action)), self.settings.gamma
        following = self._features(batch.next_observation) @ state.weights
        rewards = batch.rewards @ gamma ** np.arange(batch.rewards.shape[1])
        target = rewards + gamma**batch.steps * (1.0 - batch.terminated) * following.max(axis=1)
        features = self._features(batch.observation)
        error = target - (features @ state.weights)[rows, batch.action]
        gradient = np.zeros_like(state.weights)
        np.add.at(gradient.T, batch.action, -error[:, None] * features / len(rows))
        weights = (state.weights - self.member.learning_rate * gradient).astype(np.float32)
        state = LinearQState(weights, float((error**2).mean() / 2.0))
        if act_on is None:
            return state, None
        return self.act(state, act_on, clock, rng)

    def perform(
        self, state: LinearQState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[LinearQState, tuple[Event, ...]]:
        """Never called, because `plan` asks for updates only."""
        raise NotImplementedError(operation)

    def episodes_ended(self, state: LinearQState, episodes: Sequence[FinishedEpisode], clock: Clock) -> LinearQState:
        """Returns play no part in learning."""
        del episodes, clock
        return state

    def policy(
        self, state: LinearQState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """Greedy actions; given a generator, random ones with probability ε. [n]"""
        del clock
        actions = (self._features(observations) @ state.weights).argmax(axis=1)
        if rng is not None:
            explore = rng.random(len(actions)) < self.settings.exploration_eps
            actions = np.where(explore, rng.integers(self._actions, size=len(actions)), actions)
        return actions.astype(np.int32)

    def policy_weights(self, state: LinearQState) -> PolicyWeights:
        """The policy as a network without hidden layers, for `export`."""
        return PolicyWeights("greedy", self._network, state.weights.reshape(-1), self.member)

    def report(self, state: LinearQState, clock: Clock) -> Report:
        """What the console and the logs show."""
        del clock
        member = MemberReport(self.member, state.loss, selected=1.0, selections=0, diverged=False)
        return Report((member,), targets=(0,), generation=0, metrics={"train/loss": state.loss})

    def to_arrays(self, state: LinearQState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and JSON, for checkpoints."""
        return {"weights": state.weights}, {"loss": state.loss}

    def saved_bytes(self, meta: dict[str, Any]) -> int:
        """The size of the saved weights."""
        del meta
        return self.parameter_bytes

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> LinearQState:
        """The inverse of `to_arrays`; a file may hold anything, so its shape is checked."""
        weights = np.asarray(arrays["weights"], np.float32)
        if weights.shape != (self._size + 1, self._actions):
            raise CheckpointError(f"the saved weights have the shape {weights.shape}, which does not fit this run")
        return LinearQState(weights, float(meta["loss"]))

    def _features(self, observations: np.ndarray) -> np.ndarray:
        """Flat observations, followed by 1. [n, d + 1]"""
        flat = observations.reshape(len(observations), -1).astype(np.float32)
        return np.concatenate([flat, np.ones((len(flat), 1), np.float32)], axis=1)


LINEAR_Q = Algorithm(
    LinearQSettings,
    LinearQAgent,
    members=lambda shape: (Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.1),),
    copies=1,
)
