"""Results of runs: statistics and figures of studies, pictures, schedules and videos of single runs."""

from adaqn.analysis.loading import load_runs
from adaqn.analysis.metrics import (
    auc,
    final_score,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    returns_per_epoch,
    usual_epoch,
    worst_seed,
)
from adaqn.analysis.protocols import grid_search, random_search, running_maximum
from adaqn.analysis.resampling import Interval, bootstrap, difference, improvement, interval, profile
from adaqn.analysis.study import read_results
from adaqn.analysis.summary import StudySummary, summarize

__all__ = [
    "Interval",
    "StudySummary",
    "auc",
    "bootstrap",
    "difference",
    "final_score",
    "grid_search",
    "improvement",
    "interval",
    "iqm",
    "load_runs",
    "mean",
    "median",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "profile",
    "random_search",
    "read_results",
    "returns_per_epoch",
    "running_maximum",
    "summarize",
    "usual_epoch",
    "worst_seed",
]
