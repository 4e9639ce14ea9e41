"""A search as an agent of the training loop: it runs one trial after the other, each with an agent of its own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from adaqn.agents.population import Population
from adaqn.agents.protocol import (
    Agent,
    Arrays,
    Clock,
    Event,
    Failure,
    Generation,
    Json,
    LearnsFromRows,
    Operation,
    PolicyWeights,
    Report,
    TargetUpdate,
    TrialEnd,
    TrialStart,
    lanes_of,
)
from adaqn.agents.registry import Algorithm
from adaqn.agents.trials.settings import TrialSettings, settings_of_one_trial
from adaqn.base.errors import CheckpointError
from adaqn.envs.environments import FinishedEpisode
from adaqn.envs.spaces import random_actions
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.search import Trial
from adaqn.networks.xla.threads import in_lanes, lane_count
from adaqn.replay.memory import Need
from adaqn.replay.protocol import Batch
from adaqn.replay.rows import RowLayout


class Returns(NamedTuple):
    """The returns of a trial: individually for the last epoch, and the sum of all."""

    recent: tuple[tuple[int, float], ...] = ()  # (step of the trial at which an episode ended, its return)
    episodes: int = 0  # number of all episodes of the trial
    total: float = 0.0  # sum of their returns

    def add(self, step: int, totals: Sequence[float], epoch_steps: int) -> Returns:
        """Add episodes that ended at this step of the trial."""
        recent = (*self.recent, *((step, total) for total in totals))
        return Returns(
            tuple(end for end in recent if end[0] > step - epoch_steps),
            self.episodes + len(totals),
            self.total + sum(totals),
        )

    def mean(self, step: int, epoch_steps: int) -> float | None:
        """The mean return of the last epoch before this step, else of all episodes, else None."""
        last = [total for ended, total in self.recent if ended > step - epoch_steps]
        if last:
            return statistics.fmean(last)
        return self.total / self.episodes if self.episodes else None


class FinishedTrial(NamedTuple):
    """A finished trial with its final state."""

    outcome: TrialEnd
    run: Any  # the final state of its agent

    def beats(self, other: FinishedTrial | None) -> bool:
        """Whether this trial is better: compared by budget first, then by fitness."""
        return other is None or self._merit > other._merit

    @property
    def _merit(self) -> tuple[int, float]:
        fitness = self.outcome.fitness
        return self.outcome.fidelity, -math.inf if fitness is None else fitness


class TrialState(NamedTuple):
    """The state of the search and of its current trial."""

    search: Any  # the searcher's state; its pending trial is the current one
    trial: Trial
    first_step: int  # step of the run at which the trial began
    last_acted: int  # step of the run at which the last action was chosen
    returns: Returns
    failed: bool  # learning cannot continue; the trial ends with the next step
    hyperparameters: Hyperparameters  # of the trial
    run: Any  # the state of its agent
    best: FinishedTrial | None  # the best trial with the largest budget; provides the policy of the search


class TrialAgent:
    """A search as an agent of the training loop, which starts a new base agent for every trial."""

    def __init__(
        self,
        settings: TrialSettings,
        population: Population,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        base: Algorithm,
    ) -> None:
        assert population.space is not None, "an algorithm with trials requires a space"
        self.settings = settings
        self.space = population.space
        self.base = base
        self.searcher = settings.searcher(self.space.dimensions)
        self._spaces = observation_space, action_space
        self._lanes = lane_count()
        # An agent's methods depend on its members only through the state, so one agent serves all trials.
        self._agent = self._agent_with(self.space.largest())

    def _agent_with(self, hyperparameters: Hyperparameters) -> Agent[Any]:
        members = (hyperparameters,) * (self.base.copies or 1)
        settings = settings_of_one_trial(self.settings, self.base)
        with in_lanes(self._lanes):
            return self.base.agent(settings, Population(members), *self._spaces)

    @property
    def parameter_bytes(self) -> int:
        """Twice the bytes of the largest member of the space: for the current trial and the best one."""
        return 2 * self._agent.parameter_bytes

    @property
    def memory_needs(self) -> tuple[Need, ...]:
        """Memory for the current and the best trial, and for one update of the current one."""
        networks, *others = self._agent.memory_needs
        twice = "the largest network of the space, once for the current trial and once for the best"
        return networks._replace(what=twice, size=2 * networks.size), *others

    @property
    def lanes(self) -> int:
        """The lanes of the trial's agent."""
        return lanes_of(self._agent)

    @property
    def row_layout(self) -> RowLayout | None:
        """The layout that the trial's agent uses."""
        return self._agent.row_layout if isinstance(self._agent, LearnsFromRows) else None

    @property
    def updates_at_once(self) -> int:
        """The limit of the trial's agent."""
        return self._agent.updates_at_once if isinstance(self._agent, LearnsFromRows) else 1

    def init(self, seed: int) -> TrialState:
        """The state at step 0, with the first trial."""
        return self._begin_trial(self.searcher.init(), None, 0, np.random.default_rng(seed))

    def _begin_trial(self, search: Any, best: FinishedTrial | None, step: int, rng: np.random.Generator) -> TrialState:
        """The state at the start of the pending trial, or of a new one if none is pending."""
        trial = self.searcher.pending(search)
        if trial is None:
            search, trial = self.searcher.ask(search, rng)
        hyperparameters = self.space.from_unit(trial.u)
        run = self._agent_with(hyperparameters).init(int(rng.integers(2**32)))
        return TrialState(search, trial, step, step, Returns(), False, hyperparameters, run, best)

    def _clock(self, state: TrialState, clock: Clock) -> Clock:
        """The clock of the trial, which counts from its first step."""
        begin = state.first_step
        return Clock(
            clock.step - begin,
            max(0, clock.settled - begin),
            state.trial.fidelity,
            max(0, clock.replay_start - begin),
        )

    def _set_back(self, state: TrialState, clock: Clock) -> bool:
        """Whether the step counter was reset during the trial, which then starts again."""
        return clock.step < state.last_acted

    def plan(self, state: TrialState, clock: Clock, ended: np.ndarray) -> tuple[Operation, ...]:
        """The operations due in the trial, and a new trial at the end of its budget."""
        if state.failed or self._set_back(state, clock):
            return (Operation.NEW_TRIAL,)
        own = self._clock(state, clock)
        due = self._agent.plan(state.run, own, ended)
        return (*due, Operation.NEW_TRIAL) if own.step >= state.trial.fidelity else due

    def act(
        self, state: TrialState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[TrialState, np.ndarray]:
        """The trial's actions, or random ones for the one step until a failed trial is replaced."""
        state = state._replace(last_acted=clock.step)
        if not state.failed:
            run, actions = self._agent.act(state.run, observations, self._clock(state, clock), rng)
            if not isinstance(actions, Failure):
                return state._replace(run=run), actions
            state = state._replace(run=run, failed=True)
        return state, random_actions(self._spaces[1], rng, len(observations))

    def update(
        self,
        state: TrialState,
        operation: Operation,
        batch: Batch[np.ndarray] | np.ndarray,
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
        updates: int = 1,
    ) -> tuple[TrialState, np.ndarray | None]:
        """Update the trial's agent; then `act` if requested."""
        if not state.failed:
            agent: Any = self._agent
            several = {} if updates == 1 else {"updates": updates}  # not every agent accepts it
            run, actions = agent.update(state.run, operation, batch, self._clock(state, clock), rng, act_on, **several)
            state = state._replace(run=run, failed=isinstance(actions, Failure))
            if act_on is not None and isinstance(actions, np.ndarray):
                return state._replace(last_acted=clock.step), actions
        return (state, None) if act_on is None else self.act(state, act_on, clock, rng)

    def perform(
        self, state: TrialState, operation: Operation, clock: Clock, rng: np.random.Generator
    ) -> tuple[TrialState, tuple[Event, ...]]:
        """Execute an operation of the trial's agent, or end the trial and start the next one."""
        if operation is Operation.NEW_TRIAL:
            return self._next_trial(state, clock, rng)
        if state.failed:
            return state, ()
        run, events = self._agent.perform(state.run, operation, self._clock(state, clock), rng)
        state = state._replace(run=run)
        if any(isinstance(event, Failure) for event in events):
            return state._replace(failed=True), ()
        # Events are reported with the step of the run, not of the trial.
        return state, tuple(e._replace(step=clock.step) if isinstance(e, TargetUpdate) else e for e in events)

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
        following = self._begin_trial(search, best, clock.step, rng)
        trial, hyperparameters = following.trial, following.hyperparameters
        begins = TrialStart(clock.step, trial.number, hyperparameters, trial.fidelity, self.settings.keep_replay)
        members = tuple(member.hyperparameters for member in self._agent.report(following.run, clock).members)
        generation = Generation(clock.step, trial.number, tuple(Descendant(member, None, None) for member in members))
        return following, (*ends, begins, generation)

    def _outcome(self, state: TrialState, clock: Clock) -> TrialEnd:
        trial, own = state.trial, self._clock(state, clock)
        failed = state.failed or all(member.diverged for member in self._agent.report(state.run, own).members)
        return TrialEnd(
            number=trial.number,
            hyperparameters=state.hyperparameters,
            fidelity=trial.fidelity,
            first_step=state.first_step,
            last_step=clock.step,
            fitness=None if failed else state.returns.mean(own.step, self.settings.epoch_steps),
            origin={"kind": trial.origin, "bracket": trial.bracket, "rung": trial.rung, "slot": trial.slot},
        )

    def episodes_ended(self, state: TrialState, episodes: Sequence[FinishedEpisode], clock: Clock) -> TrialState:
        """Add the episodes to the returns of the trial."""
        own = self._clock(state, clock)
        returns = state.returns.add(own.step, [episode.total for episode in episodes], self.settings.epoch_steps)
        return state._replace(returns=returns, run=self._agent.episodes_ended(state.run, episodes, own))

    def best_trial(self, state: TrialState) -> TrialEnd | None:
        """The best of the finished trials with the largest budget, or None if none has succeeded."""
        return None if state.best is None else state.best.outcome

    def policy(
        self, state: TrialState, observations: np.ndarray, rng: np.random.Generator | None, clock: Clock
    ) -> np.ndarray:
        """The actions of the best trial's policy when it ended; of the current trial's until one has finished."""
        own = self._clock(state, clock)
        if state.best is not None:
            steps = state.best.outcome.fidelity
            own = Clock(steps, steps, steps)
        return self._agent.policy(_chosen_run(state), observations, rng, own)

    def policy_weights(self, state: TrialState) -> PolicyWeights:
        """The network of the best trial, or of the current one until a trial has finished."""
        return self._agent.policy_weights(_chosen_run(state))

    def report(self, state: TrialState, clock: Clock) -> Report:
        """Summarize the members and number of the current trial, and the best trial once one has finished."""
        report = self._agent.report(state.run, self._clock(state, clock))
        best = self.best_trial(state)
        metrics = report.metrics | {"search/trial": float(state.trial.number)}
        if best is not None and best.fitness is not None:
            metrics["search/best_return"] = best.fitness
        number = state.trial.number if best is None else best.number
        fitness = None if best is None else best.fitness
        return report._replace(
            generation=number, metrics=metrics, lines=self._lines(best, clock), policy_return=fitness
        )

    def _lines(self, best: TrialEnd | None, clock: Clock) -> tuple[str, ...]:
        """A description of the planned trials at step 0; later, the best trial so far."""
        if clock.step == 0:
            return tuple(self.searcher.describe())
        if best is None:
            return ("No trial has finished with a result yet.",)
        return (
            f"Best trial: {best.number}, with a mean return of {best.fitness:,.1f} at the end of its "
            f"{best.fidelity:,} steps.",
            f"  {best.hyperparameters.to_dict()}",
        )

    def to_arrays(self, state: TrialState) -> tuple[Arrays, Json]:
        """Convert the whole state to named arrays and JSON."""
        arrays, run = self._agent.to_arrays(state.run)
        arrays = {f"trial/{name}": array for name, array in arrays.items()}
        best: Json | None = None
        if state.best is not None:
            of_best, best_run = self._agent.to_arrays(state.best.run)
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

    def saved_bytes(self, meta: Json) -> int:
        """The size of the parameters of the current trial and of the best one."""
        runs = [meta["run"], *([] if meta["best"] is None else [meta["best"]["run"]])]
        return sum(self._agent.saved_bytes(run) for run in runs)

    def from_arrays(self, arrays: Arrays, meta: Json) -> TrialState:
        """The inverse of `to_arrays`."""
        try:
            search = self.searcher.from_dict(meta["search"])
            trial = self.searcher.pending(search)
            if trial is None:
                raise CheckpointError("the saved search has no pending trial")
            returns = Returns(**meta["returns"])
            recent = tuple((step, total) for step, total in returns.recent)
            return TrialState(
                search=search,
                trial=trial,
                first_step=meta["first_step"],
                last_acted=meta["last_acted"],
                returns=returns._replace(recent=recent),
                failed=meta["failed"],
                hyperparameters=self.space.from_unit(trial.u),
                run=self._agent.from_arrays(_below("trial/", arrays), meta["run"]),
                best=None if meta["best"] is None else self._finished(arrays, meta["best"]),
            )
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the saved search is incomplete: {error!r} is missing or wrong") from error

    def _finished(self, arrays: Arrays, meta: Json) -> FinishedTrial:
        values = meta["outcome"]
        outcome = TrialEnd(**{**values, "hyperparameters": Hyperparameters.from_dict(values["hyperparameters"])})
        return FinishedTrial(outcome, self._agent.from_arrays(_below("best/", arrays), meta["run"]))


def _chosen_run(state: TrialState) -> Any:
    return state.run if state.best is None else state.best.run


def _below(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
