"""Who survives in an infinite space: `python -m benchmarks.lineages results/lunar-lander-infinite`.

For each arm of a study, how many of the first members still have descendants after each generation, and how the members
that came out of each kind of mutation fare at the next generation: whether they leave descendants, and how much larger
their cumulated loss, by which the generation selects, is than the lowest one.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adaqn.analysis.study import read_results
from adaqn.base.errors import UserError
from adaqn.runs.reading import RunData

KEPT = "none (survivor)"


class Fate(NamedTuple):
    """A member of one generation, seen at the next one."""

    mutation: str  # that made it; `KEPT` for a survivor and for the first members
    survives: bool  # leaves descendants: itself, or mutated copies
    relative_loss: float  # its cumulated loss, as a multiple of the lowest one; inf if it diverged


def founders(run: RunData) -> list[int]:
    """The number of first members with living descendants, after each generation."""
    ancestors = list(range(len(run.members[0]["members"])))
    found = []
    for line in run.members[1:]:
        ancestors = [ancestors[member["parent"]] for member in line["members"]]
        found.append(len(set(ancestors)))
    return found


def fates(run: RunData) -> list[Fate]:
    """The fate of every member at the end of its generation; the last generation of a run has none yet."""
    losses = dict(zip(run.selection.step.tolist(), run.selection.loss, strict=True))
    found = []
    for line, following in zip(run.members[:-1], run.members[1:], strict=True):
        loss = losses.get(following["step"])
        if loss is None or not np.isfinite(loss).any():
            continue
        parents = {member["parent"] for member in following["members"]}
        found += [
            Fate(member["mutation"] or KEPT, slot in parents, float(loss[slot] / loss.min()))
            for slot, member in enumerate(line["members"])
        ]
    return found


def founders_line(runs: Sequence[RunData]) -> str:
    """The founders of each run, up to the first generation that has only one."""
    parts = []
    for run in runs:
        alive = founders(run)
        last = alive.index(1) + 1 if 1 in alive else len(alive)
        parts.append(f"seed {run.config['seed']}: {', '.join(map(str, alive[:last]))}")
    return "; ".join(parts)


def table(found: Iterable[Fate]) -> list[str]:
    """A row for each kind of mutation, in Markdown."""
    by_mutation: dict[str, list[Fate]] = defaultdict(list)
    for fate in found:
        by_mutation[fate.mutation].append(fate)
    lines = [
        "| mutation | members | leave descendants | loss, as a multiple of the lowest (median) |",
        "|---|---|---|---|",
    ]
    for mutation in sorted(by_mutation, key=lambda name: (name == KEPT, name)):
        own = by_mutation[mutation]
        share, relative = np.mean([fate.survives for fate in own]), np.median([fate.relative_loss for fate in own])
        lines.append(f"| {mutation} | {len(own)} | {share:.0%} | {relative:.2f} |")
    return lines


def page(study: Path) -> list[str]:
    """The tables of all arms in an infinite space."""
    lines: list[str] = []
    for arm in read_results(study).arms:
        runs = [run.data for run in arm.runs if arm.infinite]
        if not runs:
            continue
        lines += [f"**{arm.label}**, founders with descendants after each generation: {founders_line(runs)}.", ""]
        lines += [*table(fate for run in runs for fate in fates(run)), ""]
    if not lines:
        raise UserError(f"the study in {study} has no finished run in an infinite space")
    return lines


def main() -> None:
    """Print the tables of a study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    print("\n".join(page(parser.parse_args().study)))


if __name__ == "__main__":
    main()
