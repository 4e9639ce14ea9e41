"""`adaqn figures`: draw all figures of a study, and print its table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console

from adaqn.analysis.figures import figure_types
from adaqn.analysis.page import NotDrawn, Page
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.study import read_results
from adaqn.analysis.style import RC, drawn_here, metadata
from adaqn.analysis.summary import StudySummary, summary_of, summary_table, write_summary
from adaqn.base.files import make_parent, replacing, require_ours
from adaqn.base.output import STDOUT, print_line

KINDS = ("png", "pdf")


class Outcome(NamedTuple):
    """What `draw_study` did."""

    drawn: dict[str, list[Path]]  # the files of each figure
    not_drawn: dict[str, str]  # why each other figure was not
    tables: list[Path]
    summary: StudySummary


def draw_study(
    study: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    epoch: int | None = None,
    force: bool = False,
) -> Outcome:
    """Draw every figure that the data of a study allow, and write its table, to `figures` in it or to a directory.

    What was drawn before is replaced; files of other origin are not, unless `force` says so.
    """
    results = read_results(study, epoch)
    folder = results.path / "figures" if output is None else Path(output)
    types = figure_types()
    tables = [folder / "summary.json", folder / "summary.csv"]
    if not force:
        for path in [*tables, *(folder / f"{name}.{kind}" for name in types for kind in KINDS)]:
            require_ours(path, "file that adaqn drew", drawn_here, remedy="add --force")
    page = Page(StudyScores(results))
    drawn: dict[str, list[Path]] = {}
    not_drawn: dict[str, str] = {}
    for name, draw in types.items():
        files = [folder / f"{name}.{kind}" for kind in KINDS]
        try:
            with matplotlib.rc_context(RC):
                figure = draw(page)
                for path in files:
                    _save(figure, path)
        except NotDrawn as reason:
            not_drawn[name] = str(reason)
            for path in files:  # of an earlier time: it would not belong to these data
                if drawn_here(path):
                    path.unlink()
            continue
        drawn[name] = files
    summary = summary_of(page.scores)
    write_summary(summary, *tables)
    return Outcome(drawn, not_drawn, tables, summary)


def _save(figure: Figure, path: Path) -> None:
    make_parent(path)
    kind = path.suffix.lstrip(".")
    with replacing(path) as file:
        figure.savefig(file, format=kind, metadata=metadata(kind))


LEFT_OUT = 6  # reasons that are written out


def draw_figures(study: Path, output: Path | None, epoch: int | None, force: bool) -> int:
    """`adaqn figures`."""
    done = draw_study(study, output, epoch, force)
    console = Console(file=STDOUT)
    console.print(summary_table(done.summary, console.width))
    if done.summary.chosen_on_reported_seeds:
        print_line("grid and random search chose on the seeds that they are reported on: the study has no tuning seeds")
    for reason in done.summary.left_out[:LEFT_OUT]:
        print_line(f"left out: {reason}")
    if len(done.summary.left_out) > LEFT_OUT:
        print_line(f"left out: {len(done.summary.left_out) - LEFT_OUT} more, which summary.json names")
    for name, files in done.drawn.items():
        print_line(f"drawn: {name} ({files[0]}, .pdf)")
    for name, reason in done.not_drawn.items():
        print_line(f"not drawn: {name}: {reason}")
    print_line(f"table: {done.tables[0]}, .csv")
    return 0
