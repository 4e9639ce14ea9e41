"""AdaDQN (Algorithm 1), its ablations and DQN: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from adaqn.agents.bellman import bellman_target
from adaqn.agents.ensemble_agent import EnsembleAgent, EnsembleRun
from adaqn.agents.protocol import Algorithm, Clock, Event, Operation, TargetUpdate, setting
from adaqn.agents.schedules import linear
from adaqn.compilation import transition
from adaqn.ensemble import Ensemble, EnsembleParameters, EnsembleState
from adaqn.envs.spaces import require_discrete_actions, require_vector_observations
from adaqn.errors import count, number
from adaqn.hyperparameters import Hyperparameters, grid
from adaqn.networks.losses import l2
from adaqn.replay.protocol import Batch
from adaqn.selection import Selection, behaviour_rule, behaviour_rules, target_rule, target_rules


@dataclass(frozen=True, kw_only=True)
class DQNSettings:
    """What all members share. Periods and durations count environment steps."""

    gamma: float = setting(0.99, "discount by which members are compared, and which they learn with by default")
    learning_starts: int = setting(1_000, "steps taken before the first update")
    buffer_size: int = setting(100_000, "transitions that the replay buffer holds")
    batch_size: int = setting(64, "transitions in one update")
    train_freq: int = setting(1, "steps between updates")
    gradient_steps: int = setting(1, "updates made each time")
    target_update_interval: int = setting(200, "steps between target updates, when the target member is chosen")
    n_steps: int = setting(1, "steps over which a return is summed before it is bootstrapped")
    exploration_initial_eps: float = setting(1.0, "probability of a random action at the start")
    exploration_final_eps: float = setting(0.01, "probability of a random action in the end")
    exploration_steps: int = setting(5_000, "steps over which it decays")
    behaviour_initial_eps: float = setting(1.0, "probability that any member acts, not the target member, at the start")
    behaviour_final_eps: float = setting(0.01, "the same in the end")
    behaviour_steps: int | None = setting(None, "steps over which it decays (default: until the end of the run)")
    selection: str = setting("lowest", "rule for the target member", target_rules)
    behaviour: str = setting("epsilon", "rule for the behaviour member", behaviour_rules)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"gamma": number("gamma", self.gamma, 0.0, 1.0)}
        for name in ("learning_starts", "exploration_steps"):
            checked[name] = count(name, getattr(self, name))
        for name in [
            "buffer_size",
            "batch_size",
            "train_freq",
            "gradient_steps",
            "target_update_interval",
            "n_steps",
        ]:
            checked[name] = count(name, getattr(self, name), low=1)
        for name in (
            "exploration_initial_eps",
            "exploration_final_eps",
            "behaviour_initial_eps",
            "behaviour_final_eps",
        ):
            checked[name] = number(name, getattr(self, name), 0.0, 1.0)
        if self.behaviour_steps is not None:
            checked["behaviour_steps"] = count("behaviour_steps", self.behaviour_steps)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        target_rule(self.selection)
        behaviour_rule(self.behaviour)


class DQNState(NamedTuple):
    """All that learning changes. K members, S of them make up the target."""

    ensemble: EnsembleState  # online parameters and optimizer states
    target: EnsembleParameters  # snapshot of the online parameters at the last target update
    selected: Selection  # the target member ψ, an index into the snapshot
    cumulated_loss: Array  # [K] L2 error since the last target update
    compared_loss: Array  # [K] cumulated loss at the last target update
    last_loss: Array  # [K] L2 error on the last batch
    diverged: Array  # [K] found to have values that are not finite; for good
    reported: Array  # [K] diverged, and told
    acted: Array  # [K] actions chosen since the last target update
    selections: Array  # [K] target updates in which the member was chosen
    discount: Array  # [K] γ_k
    gamma: Array  # [] γ̄


class Programs(NamedTuple):
    """The compiled functions for one ensemble."""

    act: Any  # (state, observations [n, ...], uniforms [n, 3 + K], epsilons [2]) -> (state, actions [n])
    update: Any  # (state, batch) -> state
    update_and_act: Any  # (state, batch, observations, uniforms, epsilons) -> (state, actions)
    update_target: Any  # (state, uniforms [K]) -> (state, losses [K], acted [K], newly diverged [K])
    greedy: Any  # (state, observations) -> actions


def update(ensemble: Ensemble, state: DQNState, batch: Batch[Array]) -> DQNState:
    """One gradient step of every member on the shared target (lines 7 to 11 of Algorithm 1)."""
    next_values = [
        weight * ensemble.value(state.target, member, batch.next_observation)
        for member, weight in zip(state.selected.members, state.selected.weights, strict=True)
    ]
    q_next = jnp.stack(next_values).sum(axis=0)
    # Parameters can be finite and yet too large to compute with, which shows only here. The error of all others to
    # such a target would overflow too, so nobody learns until the next target update, when another is chosen.
    sound = jnp.isfinite(l2(q_next)).all()

    def target_with(discount: Array) -> Array:
        return bellman_target(q_next.max(axis=-1), batch, discount)

    # A masked sum instead of an index: its gradient is a product, where that of an index is a scatter, which takes
    # longer than all else that is done with the few values.
    taken = batch.action[:, None] == jnp.arange(ensemble.outputs)[None, :]

    def of_action(q: Array) -> Array:
        return jnp.where(taken, q, 0.0).sum(axis=1)

    trained, predictions = ensemble.update(
        state.ensemble, batch.observation, jax.vmap(target_with)(state.discount), of_action
    )
    # Members may learn with losses and discounts of their own; they are compared by the L2 error with γ̄.
    losses = l2(predictions - target_with(state.gamma)[None, :]).mean(axis=1)
    learned = state._replace(
        ensemble=trained,
        cumulated_loss=state.cumulated_loss + losses,
        last_loss=losses,
        diverged=state.diverged | ~jnp.isfinite(losses),
    )
    unlearned = state._replace(diverged=state.diverged.at[state.selected.members].set(True))
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), learned, unlearned)


def act(
    ensemble: Ensemble, behaviour: str, state: DQNState, observations: Array, uniforms: Array, epsilons: Array
) -> tuple[DQNState, Array]:
    """ε-greedy actions of the behaviour members (lines 3 and 4 of Algorithm 1); epsilons are (ε, ε_b). [n]

    `uniforms` [n, 3 + K] decide: whether to explore, with which action, and the behaviour member. An action is -1
    where the member that was drawn turned out to have diverged: it is marked, and the caller draws again.
    """
    n = observations.shape[0]
    parameters = ensemble.parameters(state.ensemble)
    diverged = state.diverged
    # One environment needs the values of one member only; of several, each may be given another member.
    q_of_all = ensemble.values(parameters, observations) if n > 1 else None
    if q_of_all is not None:
        diverged = diverged | ~jnp.isfinite(q_of_all).all(axis=(1, 2))

    def behaviour_member(numbers: Array) -> Array:
        rule = behaviour_rule(behaviour)
        return rule(numbers, epsilons[1], state.cumulated_loss, ~diverged, state.selected)[0]

    member = jax.vmap(behaviour_member)(uniforms[:, 2:])
    if q_of_all is not None:
        q = q_of_all[member, jnp.arange(n)]
    else:
        q = ensemble.value(parameters, member[0], observations)
        diverged = diverged | ((jnp.arange(ensemble.size) == member[0]) & ~jnp.isfinite(q).all())
    anything = (uniforms[:, 1] * ensemble.outputs).astype(jnp.int32)
    action = jnp.where(uniforms[:, 0] < epsilons[0], anything, q.argmax(axis=-1).astype(jnp.int32))
    sound = ~diverged[member]
    chosen = (member[:, None] == jnp.arange(ensemble.size)[None, :]) & sound[:, None]
    acted = state.acted + chosen.sum(axis=0, dtype=jnp.int32)
    return state._replace(diverged=diverged, acted=acted), jnp.where(sound, action, -1)


def update_target(
    ensemble: Ensemble, selection: str, state: DQNState, uniforms: Array
) -> tuple[DQNState, Array, Array, Array]:
    """ψ <- argmin L_k, L_k <- 0, target <- θ^ψ (lines 13 and 14), or another rule's choice of ψ. Uniforms are [K]."""
    parameters = ensemble.parameters(state.ensemble)
    diverged = state.diverged | ~ensemble.finite(parameters)
    losses = jnp.where(diverged, jnp.inf, state.cumulated_loss)
    selected = target_rule(selection)(uniforms, losses, ~diverged, state.selected.members.shape[0])
    renewed = state._replace(
        target=jax.tree.map(jnp.copy, parameters),
        selected=selected,
        cumulated_loss=jnp.zeros_like(losses),
        compared_loss=losses,
        diverged=diverged,
        reported=diverged,
        acted=jnp.zeros_like(state.acted),
        selections=state.selections.at[selected.members].add(1),
    )
    return renewed, losses, state.acted, diverged & ~state.reported


def greedy(ensemble: Ensemble, state: DQNState, observations: Array) -> Array:
    """The greedy actions of the target member's online network, or of its snapshot if it diverged since. [n]"""
    member = state.selected.members[0]
    online = ensemble.value(ensemble.parameters(state.ensemble), member, observations)
    sound = jnp.isfinite(online).all()
    q = jax.lax.cond(sound, lambda: online, lambda: ensemble.value(state.target, member, observations))
    return q.argmax(axis=-1)


@cache
def compiled_programs(ensemble: Ensemble, selection: str, behaviour: str) -> Programs:
    """The programs for an ensemble; the same object for equal architectures."""

    def update_and_act(
        state: DQNState, batch: Batch[Array], observations: Array, uniforms: Array, epsilons: Array
    ) -> tuple[DQNState, Array]:
        return act(ensemble, behaviour, update(ensemble, state, batch), observations, uniforms, epsilons)

    return Programs(
        act=transition(lambda s, o, u, e: act(ensemble, behaviour, s, o, u, e)),
        update=transition(lambda s, b: update(ensemble, s, b)),
        update_and_act=transition(update_and_act),
        update_target=transition(lambda s, u: update_target(ensemble, selection, s, u)),
        greedy=jax.jit(lambda s, o: greedy(ensemble, s, o)),
    )


class DQNAgent(EnsembleAgent):
    """Algorithm 1 as the loop sees it."""

    settings: DQNSettings

    def __init__(
        self,
        settings: DQNSettings,
        members: tuple[Hyperparameters, ...],
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        actions = int(require_discrete_actions(action_space).n)
        super().__init__(settings, members, require_vector_observations(observation_space).shape, actions)

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
            discount=jnp.asarray(self.discounts(members)),
            gamma=jnp.asarray(self.settings.gamma, jnp.float32),
        )
        return EnsembleRun(
            members, compiled_programs(ensemble, self.settings.selection, self.settings.behaviour), learning
        )

    def plan(self, state: EnsembleRun, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """An update every G steps, a target update every T steps (lines 6 and 12), once learning has started."""
        del state, ended
        s = self.settings
        due: list[Operation] = []
        first = clock.began + s.learning_starts
        for step in range(max(clock.settled, first) + 1, clock.step + 1):
            since_update = step % s.train_freq
            if since_update == 0:
                due += [Operation.UPDATE] * s.gradient_steps
            # Without an update since the last target update, there are no losses to choose by.
            updated = step - since_update > max(first, step - s.target_update_interval)
            if step % s.target_update_interval == 0 and updated:
                due.append(Operation.TARGET_UPDATE)
        return tuple(due)

    def exploration(self, clock: Clock) -> tuple[float, float]:
        """ε and ε_b at this step."""
        s = self.settings
        epsilon = linear(s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps, clock.step)
        return epsilon, self.behaviour_epsilon(clock)

    def act(
        self, state: EnsembleRun, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """ε-greedy actions of the behaviour members."""
        epsilons = np.asarray(self.exploration(clock), np.float32)
        uniforms = rng.random((len(observations), 3 + len(state.members)), np.float32)
        learning, actions = state.programs.act(state.learning, observations, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, observations, clock, rng)

    def update(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
    ) -> EnsembleRun:
        """One gradient step of every member."""
        del operation, clock, rng
        return state._replace(learning=state.programs.update(state.learning, batch))

    def update_and_act(
        self,
        state: EnsembleRun,
        operation: Operation,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[EnsembleRun, np.ndarray]:
        """`update`, then `act`, in one dispatch."""
        del operation
        epsilons = np.asarray(self.exploration(clock), np.float32)
        uniforms = rng.random((len(observations), 3 + len(state.members)), np.float32)
        learning, actions = state.programs.update_and_act(state.learning, batch, observations, uniforms, epsilons)
        return self._with_sound_actions(state._replace(learning=learning), actions, observations, clock, rng)

    def _with_sound_actions(
        self, state: EnsembleRun, actions: Array, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, np.ndarray]:
        """Draw again if a member that was drawn turned out to have diverged."""
        chosen = np.asarray(actions)
        if chosen[0] >= 0:
            return state, chosen
        self.require_living(state)
        return self.act(state, observations, clock, rng)

    def perform(
        self, state: EnsembleRun, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[EnsembleRun, Event]:
        """Renew the target."""
        assert operation is Operation.TARGET_UPDATE, "the only one that DQN plans besides updates"
        uniforms = rng.random(len(state.members), np.float32)
        learning, losses, acted, newly_diverged = state.programs.update_target(state.learning, uniforms)
        state = state._replace(learning=learning)
        self.require_living(state)
        event = TargetUpdate(
            step=clock.step,
            target=int(learning.selected.members[0]),
            cumulated_loss=tuple(np.asarray(losses).tolist()),
            acted=tuple(np.asarray(acted).tolist()),
            newly_diverged=tuple(np.flatnonzero(newly_diverged).tolist()),
        )
        return state, event

    def policy(
        self, state: EnsembleRun, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The greedy actions of the target member; with a generator, random ones with probability ε."""
        actions = np.array(state.programs.greedy(state.learning, observations))
        if rng is not None:
            explore = rng.random(len(actions)) < self.exploration(clock)[0]
            actions[explore] = rng.integers(self._outputs, size=int(explore.sum()))
        return actions

    def metrics(self, state: EnsembleRun, clock: Clock) -> dict[str, float]:
        """Scalars for the logs."""
        return super().metrics(state, clock) | {"rollout/exploration_rate": self.exploration(clock)[0]}


DEFAULT_MEMBERS = grid(hidden=[(64, 64), (256, 256)], learning_rate=[3e-4, 1e-3])

ALGORITHMS = {
    "adadqn": Algorithm(DQNSettings, DQNAgent, DEFAULT_MEMBERS),
    "randdqn": Algorithm(DQNSettings, DQNAgent, DEFAULT_MEMBERS, {"selection": "random"}),
    "adadqn-max": Algorithm(DQNSettings, DQNAgent, DEFAULT_MEMBERS, {"selection": "highest"}),
    "dqn": Algorithm(DQNSettings, DQNAgent, (Hyperparameters(),), copies=1),
}
