"""What came out of runs: statistics and figures of studies, pictures and films of single runs."""

from adaqn.analysis.epochs import returns_per_epoch, usual_epoch
from adaqn.analysis.metrics import (
    auc,
    final_score,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    worst_seed,
)
from adaqn.analysis.resampling import Interval, bootstrap, difference, improvement, interval

__all__ = [
    "Interval",
    "auc",
    "bootstrap",
    "difference",
    "final_score",
    "improvement",
    "interval",
    "iqm",
    "mean",
    "median",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "returns_per_epoch",
    "usual_epoch",
    "worst_seed",
]
