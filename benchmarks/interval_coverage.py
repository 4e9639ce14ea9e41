"""How often bootstrap intervals contain the truth, by the number of runs: the table in docs/statistics.md.

    python -m benchmarks.interval_coverage

The scores of a simulated study are drawn from a known distribution, so that its true IQM is known. Intervals are those
that the pages of results have, of the IQM of one arm and of the difference between two arms of the same distribution.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from adaqn.analysis import difference, interval, iqm
from adaqn.analysis.metrics import Floats
from adaqn.analysis.resampling import Interval

RUNS = (3, 5, 10, 20)
STUDIES = 4_000
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "two peaks": lambda rng, shape: rng.normal(size=shape, scale=0.2) + rng.integers(0, 2, shape),
}


def coverage(name: str, runs: int, studies: int = STUDIES) -> tuple[float, float]:
    """The share of intervals that contain the truth: of the IQM of one arm, and of the difference of two."""
    rng = np.random.default_rng([runs, list(DISTRIBUTIONS).index(name)])
    draw = DISTRIBUTIONS[name]
    truth = float(iqm(draw(np.random.default_rng(0), (4_000_000,))))
    # A study is one place along the last axis, where curves have their epochs: all of them are resampled at once.
    one, other = (draw(rng, (runs, 1, studies)) for _ in range(2))
    return _holding(interval(one), truth), _holding(difference(one, other), 0.0)


def _holding(found: Interval, truth: float) -> float:
    return float(np.mean((found.low <= truth) & (truth <= found.high)))


def table(runs: Sequence[int], studies: int) -> list[str]:
    """A row of Markdown for each number of runs, from the lowest to the highest share of the distributions."""
    rows = ["| runs of one task | IQM of one arm | difference of two arms |", "|---|---|---|"]
    for count in runs:
        shares = np.array([coverage(name, count, studies) for name in DISTRIBUTIONS])
        spans = [f"{low:.0%} to {high:.0%}" for low, high in zip(shares.min(axis=0), shares.max(axis=0), strict=True)]
        rows.append(f"| {count} | {' | '.join(spans)} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=RUNS)
    parser.add_argument("--studies", type=int, default=STUDIES)
    given = parser.parse_args()
    print(*table(given.runs, given.studies), sep="\n")


if __name__ == "__main__":
    main()
