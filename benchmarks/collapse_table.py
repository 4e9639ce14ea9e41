"""The table of `collapse`: generation by generation, whom the losses choose and whether that policy is a good one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adaqn.runs.reading import read_run
from benchmarks.collapse_figure import read_observation

LIMIT = 1_000  # steps after which Lunar Lander cuts an episode off


class GenerationRow(NamedTuple):
    """The stretch of a run from one generation to the next."""

    first_step: int
    training_return: float  # mean of the episodes that ended in it; nan if none did
    landed_or_crashed: int  # episodes that ended before the time limit, whose last transitions do not bootstrap
    target: str  # the member that was most often target
    target_share: float  # of the actions, taken by the member that was then chosen as target
    of_target: float  # mean greedy return of the target
    of_best: float  # mean, over evaluations, of the best member's greedy return
    agreement: float  # mean rank correlation of low losses with high returns: 1 if the losses order policies


def rows(path: Path) -> list[GenerationRow]:
    """A row for each generation of an observed run, but not for one at its very end."""
    run, lines = read_run(path), read_observation(path)
    starts, end = [int(line["step"]) for line in run.members], int(run.selection.step[-1])
    found = []
    for first, following in zip(starts, [*starts[1:], end + 1], strict=True):
        # A target update at the step of a generation chose among the members that came out of it.
        own = [line for line in lines if first <= line["step"] < following]
        if not own or first == end:
            continue
        ended = (run.episodes.step > first) & (run.episodes.step <= following)
        returns, lengths = run.episodes.total[ended], run.episodes.length[ended]
        chosen = Counter(line["members"][line["target"]] for line in own)
        played = [line for line in own if "played" in line]
        found.append(
            GenerationRow(
                first,
                float(returns.mean()) if len(returns) else float("nan"),
                int((lengths < LIMIT).sum()),
                chosen.most_common(1)[0][0],
                _mean([line["acted"][line["target"]] / max(1, sum(line["acted"])) for line in own]),
                _mean([line["played"][line["target"]]["mean"] for line in played]),
                _mean([max(one["mean"] for one in line["played"]) for line in played]),
                _mean([agreement(line) for line in played]),
            )
        )
    return found


def agreement(line: dict[str, Any]) -> float:
    """Spearman's correlation of the members' losses, negated, with their greedy returns; ties share their rank."""
    losses = _ranks(-np.array(line["losses"], np.float64))
    returns = _ranks(np.array([one["mean"] for one in line["played"]], np.float64))
    losses, returns = losses - losses.mean(), returns - returns.mean()
    scale = float(np.sqrt((losses**2).sum() * (returns**2).sum()))
    return float((losses * returns).sum() / scale) if scale > 0.0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.array([(values < value).sum() + 0.5 * (values == value).sum() for value in values], np.float64)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def table(path: Path) -> str:
    """The rows in Markdown."""
    lines = [
        "| from step | training return | episodes that ended before the time limit | target, most often | its share of "
        "the actions | its greedy return | the best member's | do lower losses mean better policies? (rank "
        "correlation) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows(path):
        cells = [
            f"{row.first_step:,}",
            f"{row.training_return:.0f}",
            str(row.landed_or_crashed),
            row.target,
            f"{row.target_share:.0%}",
            f"{row.of_target:.0f}",
            f"{row.of_best:.0f}",
            f"{row.agreement:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
