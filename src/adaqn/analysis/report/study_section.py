"""The part of the page about a study."""

from __future__ import annotations

from adaqn.analysis.report.charts import Charts
from adaqn.analysis.report.markup import Markup, joined
from adaqn.analysis.report.several import runs_table
from adaqn.analysis.report.sources import StudySource


def study_section(study: StudySource, charts: Charts, epoch: int | None) -> Markup:
    """Everything about a study."""
    return joined([runs_table(study.runs)])
