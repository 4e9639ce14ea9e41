"""Results of the members: how often each was selected, and the returns of the episodes in which each acted most.

Both are computed from the exact tables, or from the same rows while the run is in progress, so that the console, the
picture and a resumed run agree.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adaqn.agents.protocol import Event, Generation, MemberEvaluation, PolicyEvaluation, TargetUpdate
from adaqn.runs.reading import Episodes, Evaluations, RunData, read_run
from adaqn.training.observers import Episode, Observer, RunView


class ActingReturn(NamedTuple):
    """The episodes in which one member acted most."""

    mean: float | None  # mean return; None without episodes
    episodes: int


@dataclass(frozen=True)
class History:
    """The data of K members in n target updates, and the episodes in which they acted."""

    episodes: Episodes
    step: NDArray[np.int64]  # [n] of each row of selection.csv
    acted: NDArray[np.float64]  # [n, K]
    joined: NDArray[np.int64]  # [K] step at which the current member at each index was created
    member_evaluations: Evaluations | None  # if members are evaluated individually
    environments: int
    learning_from: int  # step at which learning starts
    pair: bool  # members train an actor, two of them at a time, and do not act themselves


def history_of(run: RunData) -> History:
    """The history of the members in a run directory."""
    joined, began = joined_steps(_lineage(run.members), run.selection.loss.shape[1])
    return History(
        episodes=run.episodes,
        step=run.selection.step,
        acted=run.selection.acted,
        joined=joined,
        member_evaluations=run.member_evaluations,
        environments=int(run.config.get("n_envs") or 1),
        learning_from=began + _setting(run.config, "learning_starts", 0),
        pair=run.sums_up_selections,
    )


def acting_returns(history: History) -> list[ActingReturn]:
    """The returns of the episodes in which each member acted most, since it was created and learning started. [K]

    Actions are counted per target update, so episodes between the same two target updates count for the same member.
    The two members of a pair that trains an actor share its episodes. If members are evaluated individually, their
    evaluation episodes are used instead.
    """
    members = len(history.joined)
    if (evaluated := history.member_evaluations) is not None:
        since = evaluated.step > history.joined[evaluated.member] if members else np.zeros(0, bool)
        return [_acting(evaluated.total[since & (evaluated.member == k)]) for k in range(members)]
    episodes = history.episodes
    began = episodes.step - episodes.length * history.environments
    most = _acted_most(history, began)
    since = np.maximum(history.joined, history.learning_from)
    return [_acting(episodes.total[most[:, k] & (began >= since[k])]) for k in range(members)]


def _acted_most(history: History, began: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each member acted most in each episode, or was in the pair that trained the actor most. [episodes, K]"""
    members = len(history.joined)
    first = history.learning_from if history.pair else 0  # a pair's first row covers the steps from there on
    knots = np.concatenate([[first], history.step])
    # A row contains shares of updates for a pair, otherwise counts of actions.
    amounts = history.acted * np.diff(knots)[:, None] if history.pair else history.acted
    total = np.concatenate([np.zeros((1, members)), np.cumsum(amounts, axis=0)])
    acted = np.stack(
        [np.interp(history.episodes.step, knots, of) - np.interp(began, knots, of) for of in total.T], axis=1
    )
    order = np.argsort(-acted, axis=1, kind="stable")[:, : 2 if history.pair else 1]
    most = np.zeros(acted.shape, bool)
    np.put_along_axis(most, order, True, axis=1)
    return most & (acted > 0.0)


def _acting(totals: NDArray[np.float64]) -> ActingReturn:
    return ActingReturn(float(totals.mean()) if len(totals) else None, len(totals))


def selected_shares(run: RunData) -> NDArray[np.float64]:
    """The share of all target updates in which the current member at each index was selected. [K]

    The console shows these at the end; with a pair as target the shares add up to 2.
    """
    selection, members = run.selection, run.selection.loss.shape[1]
    if run.sums_up_selections and run.summary is not None:
        # The table does not contain the updates since its last row.
        return np.array([count / max(1, run.summary["updates"]) for count in run.summary["selections"]])
    joined, began = joined_steps(_lineage(run.members), members)
    weights = selection_weights(run)
    counted = (selection.step[:, None] > joined) * selection.selected * weights[:, None]
    return np.asarray(counted.sum(axis=0) / max(1.0, float(weights[selection.step > began].sum())), np.float64)


def selection_weights(run: RunData) -> NDArray[np.float64]:
    """Number of target updates that each row of selection.csv summarizes. [n]"""
    step = run.selection.step
    if not run.sums_up_selections:
        return np.ones(len(step))
    frequency = max(1, _setting(run.config, "train_freq", 1))
    before = np.concatenate([[_setting(run.config, "learning_starts", 0)], step[:-1]])
    # Every update selects a pair, and the first row begins where learning starts.
    updates = (step // frequency - before // frequency) * _setting(run.config, "gradient_steps", 1)
    return updates.astype(np.float64)


def joined_steps(
    lineage: Iterable[tuple[int, Sequence[tuple[int | None, str | None]]]], members: int
) -> tuple[NDArray[np.int64], int]:
    """The step at which the member at each index was created [K], and at which the ensemble or current trial began.

    The lineage has the step and, for each index, the parent and the mutation of the member, as in members.jsonl.
    """
    joined, began = np.zeros(members, np.int64), 0
    for step, places in lineage:
        fresh = all(parent is None for parent, _ in places)  # the start of a run, or of a trial
        began = step if fresh else began
        for place, (_, mutation) in enumerate(places[:members]):
            if fresh or mutation is not None:
                joined[place] = step
    return joined, began


def _lineage(lines: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[tuple[int | None, str | None]]]]:
    return [(line["step"], [(m.get("parent"), m.get("mutation")) for m in line["members"]]) for line in lines]


def _setting(config: Mapping[str, Any], name: str, default: int) -> int:
    settings = config.get("settings")
    value = settings.get(name, default) if isinstance(settings, Mapping) else default
    return int(value)


class HistoryRecorder(Observer[RunView]):
    """Collects the history of a run in memory; a resumed run starts with the history in its directory."""

    def __init__(self, directory: Path | None = None, learning_starts: int = 0) -> None:
        self.last_evaluation: PolicyEvaluation | None = None
        self._directory = directory
        self._learning_starts = learning_starts
        self._members = 0
        self._episodes: list[Episode] = []
        self._steps = array("q")
        self._acted = array("d")
        self._lineage: list[tuple[int, list[tuple[int | None, str | None]]]] = []
        self._member_evaluations: list[MemberEvaluation] = []

    def on_start(self, trainer: RunView) -> None:
        """Load the history from before the run was resumed."""
        self._members = len(trainer.report().members)
        if self._directory is None or trainer.clock.step == 0:
            return
        run = read_run(self._directory)
        self._episodes = [Episode(*row) for row in zip(*(column.tolist() for column in run.episodes), strict=True)]
        self._steps.extend(run.selection.step.tolist())
        self._acted.extend(run.selection.acted.ravel().tolist())
        self._lineage = _lineage(run.members)
        if (evaluated := run.member_evaluations) is not None:
            rows = zip(*(column.tolist() for column in evaluated), strict=True)
            self._member_evaluations = [MemberEvaluation(*row) for row in rows]
        if len(run.evaluations.step):
            last = run.evaluations.step == run.evaluations.step[-1]
            returns, lengths = run.evaluations.total[last].tolist(), run.evaluations.length[last].tolist()
            self.last_evaluation = PolicyEvaluation(int(run.evaluations.step[-1]), tuple(returns), tuple(lengths))

    def on_episode(self, trainer: RunView, episode: Episode) -> None:
        """Record an episode."""
        self._episodes.append(episode)

    def on_event(self, trainer: RunView, event: Event) -> None:
        """Record target updates, generations and evaluations."""
        if isinstance(event, TargetUpdate):
            self._steps.append(event.step)
            self._acted.extend(event.acted)
        elif isinstance(event, Generation):
            self._lineage.append((event.step, [(m.parent, m.mutation) for m in event.members]))
        elif isinstance(event, MemberEvaluation):
            self._member_evaluations.append(event)
        elif isinstance(event, PolicyEvaluation):
            self.last_evaluation = event

    def history(self, trainer: RunView) -> History:
        """The history so far."""
        one_by_one = "evaluations" in trainer.traits.tables
        joined, began = joined_steps(self._lineage, self._members)
        return History(
            episodes=Episodes(*_columns(self._episodes, (np.int64, np.float64, np.int64))),
            step=np.array(self._steps, np.int64),
            acted=np.array(self._acted, np.float64).reshape(-1, self._members),
            joined=joined,
            member_evaluations=Evaluations(
                *_columns(self._member_evaluations, (np.int64, np.int64, np.int64, np.float64, np.int64))
            )
            if one_by_one
            else None,
            environments=trainer.environments.count,
            learning_from=began + self._learning_starts,
            pair=trainer.traits.sums_up_selections,
        )


def _columns(rows: Sequence[tuple[float, ...]], types: Sequence[type]) -> list[NDArray[Any]]:
    """The rows as one array per column."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [np.array(column, kind) for column, kind in zip(columns, types, strict=True)]
