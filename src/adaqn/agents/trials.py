"""A search within one run: trial after trial, each a fresh DQN with hyperparameters that a searcher asks for.

This is one agent to the loop, which wraps another one. A trial has a clock of its own: ε, the start of learning and
target updates count from its first step, and "until the end" is the end of the trial. The replay buffer is kept from
trial to trial unless the settings say otherwise. A trial is as good as the mean return of the episodes in its last
epoch. One that is still under way when the run ends is neither told to the searcher nor recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from adaqn.agents.catalogue import Population
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.ensemble_agent import EnsembleRun
from adaqn.agents.events import Event, Generation, Newcomer, TargetUpdate, TrialEnd, TrialStart
from adaqn.agents.protocol import Clock, MemberReport, Operation, PolicyWeights
from adaqn.agents.trial_settings import TrialSettings
from adaqn.agents.trial_state import FinishedTrial, Returns, TrialState
from adaqn.envs.environments import FinishedEpisode
from adaqn.envs.spaces import require_discrete_actions
from adaqn.errors import CheckpointError
from adaqn.hyperparameters import Convolution, Hyperparameters
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch
from adaqn.space import SearchSpace


class _MemberDiverged(Exception):
    """The only member of a trial diverged, with the state that it left behind."""

    def __init__(self, run: EnsembleRun) -> None:
        super().__init__()
        self.run = run


class _TrialDQN(DQNAgent):
    """A DQN whose end is only that of a trial."""

    def require_living(self, state: EnsembleRun) -> None:
        """Raise if the member's values are no longer finite."""
        if _diverged(state):
            raise _MemberDiverged(state)


class TrialAgent:
    """A search as the loop sees it: an agent that starts afresh again and again."""

    sums_up_selections = False
    extra_tables = ("trials",)

    def __init__(
        self,
        settings: TrialSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
    ) -> None:
        assert population.space is not None, "an algorithm with trials requires a space"
        self.settings = settings
        self.space = population.space
        self.searcher = settings.searcher(self.space.dimensions)
        self._spaces = observation_space, action_space
        self._actions = int(require_discrete_actions(action_space).n)
        # All that its methods need of a trial is in the state, so one agent serves for all of them.
        self._dqn = self._dqn_with(_largest(self.space))

    def _dqn_with(self, hyperparameters: Hyperparameters) -> _TrialDQN:
        return _TrialDQN(self.settings.of_one_trial, (hyperparameters,), *self._spaces)

    @property
    def batch_size(self) -> int:
        """Transitions in one update."""
        return self._dqn.batch_size

    @property
    def n_steps(self) -> int:
        """Steps of one transition."""
        return self._dqn.n_steps

    @property
    def parameter_bytes(self) -> int:
        """Those of the largest member that the space has, twice: for the trial under way and the best one."""
        return 2 * self._dqn.parameter_bytes

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """The same, and one update of the trial under way."""
        networks, batch = self._dqn.memory_needs
        twice = "the largest network of the space, once for the trial under way and once for the best"
        return networks._replace(what=twice, size=self.parameter_bytes), batch

    def describe(self) -> list[str]:
        """Which trials there will be."""
        return self.searcher.describe()

    def conclude(self, state: TrialState) -> list[str]:
        """Which trial was the best; the table of the members has only the one under way."""
        best = self.best_trial(state)
        if best is None:
            return ["No trial has come to a good end."]
        return [
            f"Best trial: {best.number}, with a mean return of {best.fitness:,.1f} at the end of its "
            f"{best.fidelity:,} steps.",
            f"  {best.hyperparameters.to_dict()}",
        ]

    def init(self, seed: int) -> TrialState:
        """The state at step 0: the first trial begins."""
        return self._begun(self.searcher.init(), None, 0, np.random.default_rng(seed))

    def _begun(self, search: Any, best: FinishedTrial | None, step: int, rng: np.random.Generator) -> TrialState:
        """The state in which the pending trial begins, or the next one if none is pending."""
        trial = self.searcher.pending(search)
        if trial is None:
            search, trial = self.searcher.ask(search, rng)
        run = self._dqn_with(self.space.from_unit(trial.u)).init(int(rng.integers(2**32)))
        return TrialState(search, trial, step, step, Returns(), False, run, best)

    def _clock(self, state: TrialState, clock: Clock) -> Clock:
        """Where the trial stands."""
        begin = state.first_step
        return Clock(
            clock.step - begin, max(0, clock.settled - begin), state.trial.fidelity, max(0, clock.began - begin)
        )

    def _set_back(self, state: TrialState, clock: Clock) -> bool:
        """Whether a new run began in the midst of the trial; the trial then begins again."""
        return clock.step < state.last_acted

    def plan(self, state: TrialState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """What is due in the trial, and at the end of its steps the next one."""
        if state.failed or self._set_back(state, clock):
            return (Operation.NEW_TRIAL,)
        own = self._clock(state, clock)
        due = self._dqn.plan(state.run, own, ended)
        return (*due, Operation.NEW_TRIAL) if own.step >= state.trial.fidelity else due

    def act(
        self, state: TrialState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[TrialState, np.ndarray]:
        """The trial's actions."""
        own = self._clock(state, clock)
        act = partial(self._dqn.act, state.run, observations, own, rng)
        return self._acted(state, act, observations, clock, rng)

    def update(
        self, state: TrialState, operation: Operation, batch: Batch[np.ndarray], clock: Clock, rng: np.random.Generator
    ) -> TrialState:
        """A gradient step of the trial's member."""
        if state.failed:
            return state
        return state._replace(run=self._dqn.update(state.run, operation, batch, self._clock(state, clock), rng))

    def update_and_act(
        self,
        state: TrialState,
        operation: Operation,
        batch: Batch[np.ndarray],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[TrialState, np.ndarray]:
        """`update`, then `act`, in one dispatch."""
        own = self._clock(state, clock)
        act = partial(self._dqn.update_and_act, state.run, operation, batch, observations, own, rng)
        return self._acted(state, act, observations, clock, rng)

    def _acted(
        self,
        state: TrialState,
        act: Callable[[], tuple[EnsembleRun, np.ndarray]],
        observations: np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
    ) -> tuple[TrialState, np.ndarray]:
        """The actions, or any for the one step until a trial that failed is replaced."""
        state = state._replace(last_acted=clock.step)
        if not state.failed:
            try:
                run, actions = act()
                return state._replace(run=run), actions
            except _MemberDiverged as end:
                state = state._replace(run=end.run, failed=True)
        return state, rng.integers(self._actions, size=len(observations))

    def perform(
        self, state: TrialState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[TrialState, tuple[Event, ...]]:
        """Renew the target of the trial, or end the trial and begin the next."""
        if operation is Operation.NEW_TRIAL:
            return self._next_trial(state, clock, rng)
        if state.failed:
            return state, ()
        try:
            run, events = self._dqn.perform(state.run, operation, self._clock(state, clock), rng)
        except _MemberDiverged as end:
            return state._replace(run=end.run, failed=True), ()
        # The events of the trial are those of the run.
        events = tuple(e._replace(step=clock.step) if isinstance(e, TargetUpdate) else e for e in events)
        return state._replace(run=run), events

    def _next_trial(
        self, state: TrialState, clock: Clock, rng: np.random.Generator
    ) -> tuple[TrialState, tuple[Event, ...]]:
        ends: tuple[Event, ...] = ()
        search, best = state.search, state.best
        if not self._set_back(state, clock):
            finished = FinishedTrial(self._outcome(state, clock), state.run)
            fitness = finished.outcome.fitness
            search = self.searcher.tell(search, state.trial, math.inf if fitness is None else -fitness)
            best = finished if fitness is not None and finished.beats(best) else best
            ends = (finished.outcome,)
        following = self._begun(search, best, clock.step, rng)
        trial, (hyperparameters,) = following.trial, following.run.members
        begins = TrialStart(clock.step, trial.number, hyperparameters, trial.fidelity, self.settings.keep_replay)
        generation = Generation(clock.step, trial.number, (Newcomer(hyperparameters, None, None),))
        return following, (*ends, begins, generation)

    def _outcome(self, state: TrialState, clock: Clock) -> TrialEnd:
        trial, failed = state.trial, state.failed or _diverged(state.run)
        return TrialEnd(
            number=trial.number,
            hyperparameters=state.run.members[0],
            fidelity=trial.fidelity,
            first_step=state.first_step,
            last_step=clock.step,
            fitness=None if failed else state.returns.mean(clock.step - state.first_step, self.settings.epoch_steps),
            origin={"kind": trial.origin, "bracket": trial.bracket, "rung": trial.rung, "slot": trial.slot},
        )

    def episodes_ended(self, state: TrialState, episodes: Sequence[FinishedEpisode], clock: Clock) -> TrialState:
        """Count them for the trial."""
        step, totals = clock.step - state.first_step, [episode.total for episode in episodes]
        return state._replace(returns=state.returns.add(step, totals, self.settings.epoch_steps))

    def best_trial(self, state: TrialState) -> TrialEnd | None:
        """The best of the finished trials with the most steps, or None if all failed or none is finished."""
        return None if state.best is None else state.best.outcome

    def policy(
        self, state: TrialState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """That of the best trial, as it was when it ended; before one is finished, that of the one under way."""
        own = self._clock(state, clock)
        if state.best is not None:
            steps = state.best.outcome.fidelity
            own = Clock(steps, steps, steps)
        return self._dqn.policy(self._chosen(state), observations, rng, own)

    def policy_weights(self, state: TrialState) -> PolicyWeights:
        """The network of the same trial."""
        return self._dqn.policy_weights(self._chosen(state))

    def _chosen(self, state: TrialState) -> EnsembleRun:
        return state.run if state.best is None else state.best.run

    def policy_return(self, state: TrialState, recent: Sequence[float]) -> float | None:
        """The return by which the best trial was judged; training returns are those of the trial under way."""
        del recent
        return None if state.best is None else state.best.outcome.fitness

    def generation(self, state: TrialState) -> int:
        """The number of the same trial."""
        return state.trial.number if state.best is None else state.best.outcome.number

    def target_member(self, state: TrialState) -> int:
        """The only one."""
        return self._dqn.target_member(state.run)

    def target_members(self, state: TrialState) -> tuple[int, ...]:
        """The only one."""
        return self._dqn.target_members(state.run)

    def metrics(self, state: TrialState, clock: Clock) -> dict[str, float]:
        """Those of the trial, its number, and the best return of a finished one once there is any."""
        tags = self._dqn.metrics(state.run, self._clock(state, clock)) | {"search/trial": float(state.trial.number)}
        best = self.best_trial(state)
        return tags if best is None or best.fitness is None else tags | {"search/best_return": best.fitness}

    def report(self, state: TrialState) -> tuple[MemberReport, ...]:
        """The member of the trial under way."""
        return self._dqn.report(state.run)

    def to_arrays(self, state: TrialState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All of the state as named arrays and JSON."""
        arrays, run = self._dqn.to_arrays(state.run)
        arrays = {f"trial/{name}": array for name, array in arrays.items()}
        best: dict[str, Any] | None = None
        if state.best is not None:
            of_best, best_run = self._dqn.to_arrays(state.best.run)
            arrays |= {f"best/{name}": array for name, array in of_best.items()}
            outcome = state.best.outcome
            values = outcome._asdict() | {"hyperparameters": outcome.hyperparameters.to_dict()}
            best = {"outcome": values, "run": best_run}
        return arrays, {
            "search": self.searcher.to_dict(state.search),
            "first_step": state.first_step,
            "last_acted": state.last_acted,
            "returns": state.returns._asdict(),
            "failed": state.failed,
            "run": run,
            "best": best,
        }

    def least_bytes(self, meta: dict[str, Any]) -> int:
        """The parameters of the trial under way, and of the best one."""
        runs = [meta["run"], *([] if meta["best"] is None else [meta["best"]["run"]])]
        return sum(self._dqn.least_bytes(run) for run in runs)

    def from_arrays(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> TrialState:
        """The state that `to_arrays` was given."""
        try:
            search = self.searcher.from_dict(meta["search"])
            trial = self.searcher.pending(search)
            if trial is None:
                raise CheckpointError("the saved search has no trial under way")
            returns = Returns(**meta["returns"])
            recent = tuple((step, total) for step, total in returns.recent)
            return TrialState(
                search=search,
                trial=trial,
                first_step=meta["first_step"],
                last_acted=meta["last_acted"],
                returns=returns._replace(recent=recent),
                failed=meta["failed"],
                run=self._dqn.from_arrays(_below("trial/", arrays), meta["run"]),
                best=None if meta["best"] is None else self._finished(arrays, meta["best"]),
            )
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the saved search is not complete: {error!r} is missing or wrong") from error

    def _finished(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> FinishedTrial:
        values = meta["outcome"]
        outcome = TrialEnd(**{**values, "hyperparameters": Hyperparameters.from_dict(values["hyperparameters"])})
        return FinishedTrial(outcome, self._dqn.from_arrays(_below("best/", arrays), meta["run"]))


def _diverged(run: EnsembleRun) -> bool:
    return bool(np.asarray(run.learning.diverged).all())


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _largest(space: SearchSpace) -> Hyperparameters:
    """The member with the most parameters: many units, and few convolutions that make the image smaller."""
    convolutions: tuple[Convolution, ...] = ()
    if (of := space.convolutions) is not None:
        convolutions = (Convolution(of.channels[1], of.kernel[1], of.stride[0]),) * of.layers[0]
    return space.fixed.replace(
        activation=space.activation[0],
        optimizer=space.optimizer[0],
        loss=space.loss[0],
        learning_rate=space.learning_rate[0],
        hidden=(space.hidden.neurons[1],) * space.hidden.layers[1],
        convolutions=convolutions,
    )
