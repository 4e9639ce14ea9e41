"""What `adaqn figures` prints: the table, the figures that were drawn, and why the others were not."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from adaqn.analysis.drawing import draw_study
from adaqn.analysis.summary import summary_table
from adaqn.printing import STEADY, say

LEFT_OUT = 6  # reasons that are written out


def draw_figures(study: Path, output: Path | None, epoch: int | None, force: bool) -> int:
    """`adaqn figures`."""
    done = draw_study(study, output, epoch, force)
    console = Console(file=STEADY)
    console.print(summary_table(done.summary, console.width))
    if done.summary.chosen_on_reported_seeds:
        say("grid and random search chose on the seeds that they are reported on: the study has no tuning seeds")
    for reason in done.summary.left_out[:LEFT_OUT]:
        say(f"left out: {reason}")
    if len(done.summary.left_out) > LEFT_OUT:
        say(f"left out: {len(done.summary.left_out) - LEFT_OUT} more, which summary.json names")
    for name, files in done.drawn.items():
        say(f"drawn: {name} ({files[0]}, .pdf)")
    for name, reason in done.not_drawn.items():
        say(f"not drawn: {name}: {reason}")
    say(f"table: {done.tables[0]}, .csv")
    return 0
