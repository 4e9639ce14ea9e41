"""Summary of the rounds of `throughput` into the reported numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.contenders import Contender, Layers

BUSY = 0.95  # share of the core below which a measurement is dominated by other processes

RateRounds = dict[str, list[dict[str, float]]]  # by contender, one measurement per round
LatencyRounds = dict[str, tuple[list[dict[str, float]], list[dict[str, float]]]]  # cold and warm


@dataclass(frozen=True)
class RateRow:
    """One contender's speed and memory."""

    name: str
    members: tuple[Layers, ...]
    steps_per_second: float
    rounds: tuple[float, ...]  # steps per second in each
    ratio_to_sb3: float | None  # median of the rounds' ratios; None if that peer was not measured
    ratio_to_sbx: float | None
    peak_rss_mb: float
    lowest_cpu_share: float  # over the rounds; well below 1 if other processes used the core


@dataclass(frozen=True)
class LatencyRow:
    """Start-up times of one contender, in seconds."""

    name: str
    import_seconds: float
    construct_seconds: float
    cold_first_update_seconds: float  # with an empty compilation cache
    warm_first_update_seconds: float  # in the next process


@dataclass(frozen=True)
class Summary:
    """All reported numbers."""

    environment_steps_per_second: float
    rates: tuple[RateRow, ...]
    base_members: int
    further_member_share: dict[str, float]  # cost of the K-th equal member, as a share of the step with `base_members`
    latencies: tuple[LatencyRow, ...]


def summarise(
    contenders: Sequence[Contender],
    rates: RateRounds,
    latencies: LatencyRounds,
    environment: Sequence[float],
    base: int = 1,
) -> Summary:
    """The medians over the rounds; `base` is the number of equal members that further ones are compared with."""
    speeds = {name: [found["steps_per_second"] for found in rounds] for name, rounds in rates.items()}
    rows = tuple(
        RateRow(
            contender.name,
            contender.members,
            median(speeds[contender.name]),
            tuple(speeds[contender.name]),
            _ratio(speeds[contender.name], speeds.get("sb3")),
            _ratio(speeds[contender.name], speeds.get("sbx")),
            _median_of(rates[contender.name], "peak_rss_mb"),
            min(found["cpu_share"] for found in rates[contender.name]),
        )
        for contender in contenders
    )
    waits = tuple(
        LatencyRow(
            name,
            _median_of([*cold, *warm], "import_seconds"),
            _median_of([*cold, *warm], "construct_seconds"),
            _median_of(cold, "first_update_seconds"),
            _median_of(warm, "first_update_seconds"),
        )
        for name, (cold, warm) in latencies.items()
    )
    return Summary(median(environment), rows, base, further_member_share(speeds, base), waits)


def further_member_share(speeds: dict[str, list[float]], base: int) -> dict[str, float]:
    """Time that the K-th equal member adds to a step, as a share of the time of a step with `base` members.

    The median of the shares within each round. If not every number of members was measured, "4-5" is the mean of the
    fourth and the fifth.
    """
    alone = speeds.get(f"adaqn-k{base}")
    if not alone:
        return {}
    measured = sorted(int(name.removeprefix("adaqn-k")) for name in speeds if name.startswith("adaqn-k"))
    shares: dict[str, float] = {}
    for fewer, more in pairwise(count for count in measured if count >= base):
        rounds = zip(speeds[f"adaqn-k{more}"], speeds[f"adaqn-k{fewer}"], alone, strict=True)
        label = str(more) if more == fewer + 1 else f"{fewer + 1}-{more}"
        shares[label] = median((1 / with_it - 1 / without) * one / (more - fewer) for with_it, without, one in rounds)
    return shares


def print_tables(summary: Summary) -> None:
    """Print the summary as tables."""
    print(f"\n{'':<14}{'members':<34}{'steps/s':>9}{'x SB3':>8}{'x SBX':>8}{'peak MB':>9}")
    print(f"{'environment':<48}{summary.environment_steps_per_second:>9.0f}")
    for row in summary.rates:
        ratios = "".join(f"{'' if r is None else f'{r:.2f}':>8}" for r in (row.ratio_to_sb3, row.ratio_to_sbx))
        print(f"{row.name:<14}{_members(row.members):<34}{row.steps_per_second:>9.0f}{ratios}{row.peak_rss_mb:>9.0f}")
    busy = [row.name for row in summary.rates if row.lowest_cpu_share < BUSY]
    if busy:
        print(f"other processes used the same core while {', '.join(busy)} ran: do not rely on these numbers")
    if summary.further_member_share:
        print(f"\ncost of a further equal member, as a share of the step with {summary.base_members}:")
        for count, share in summary.further_member_share.items():
            print(f"  member {count}: {share:6.1%}")
    if summary.latencies:
        print(f"\n{'seconds':<14}{'import':>9}{'construct':>11}{'first update: cold':>20}{'warm':>8}")
    for wait in summary.latencies:
        print(
            f"{wait.name:<14}{wait.import_seconds:>9.2f}{wait.construct_seconds:>11.2f}"
            f"{wait.cold_first_update_seconds:>20.2f}{wait.warm_first_update_seconds:>8.2f}"
        )


def _ratio(speeds: Sequence[float], reference: Sequence[float] | None) -> float | None:
    if reference is None:
        return None
    return median(ours / theirs for ours, theirs in zip(speeds, reference, strict=True))


def _median_of(rounds: Iterable[dict[str, float]], key: str) -> float:
    return median(found[key] for found in rounds)


def _members(members: tuple[Layers, ...]) -> str:
    counts = Counter("x".join(map(str, layers)) for layers in members)
    if len(members) > 1 and len(counts) == len(members):
        return " ".join(counts)
    return ", ".join(f"{count} of {name}" for name, count in counts.items())
