"""Summary of the rounds of `throughput` into the reported numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.contenders import Contender, Layers
from benchmarks.isolation import Placement

BUSY = 0.95  # share of the core below which a measurement is dominated by other processes

RateRounds = dict[str, list[dict[str, float]]]  # by contender, one measurement per round
LatencyRounds = dict[str, tuple[list[dict[str, float]], list[dict[str, float]]]]  # cold and warm


@dataclass(frozen=True)
class RateRow:
    """One contender's speed and memory."""

    name: str
    members: tuple[Layers, ...]
    n_envs: int
    space: str | None
    steps_per_second: float  # median of the rounds
    rounds: tuple[float, ...]  # steps per second in each
    ratio_to_sb3: float | None  # median of the rounds' ratios; None if that peer was not measured
    ratio_to_sbx: float | None
    cpu_ms_per_step: float  # processor time of all threads
    peak_rss_mb: float
    lowest_cpu_share: float  # over the rounds; well below 1 for a pinned process if others used the core


@dataclass(frozen=True)
class LatencyRow:
    """Start-up times of one contender, in seconds."""

    name: str
    import_seconds: float
    construct_seconds: float
    cold_first_update_seconds: float  # with an empty compilation cache
    warm_first_update_seconds: float  # in the next process


@dataclass(frozen=True)
class RateTable:
    """All numbers measured in one placement."""

    rates: tuple[RateRow, ...]
    base_members: int
    further_member_share: dict[str, float]  # cost of the K-th equal member, as a share of the step with `base_members`


def rate_table(contenders: Sequence[Contender], rates: RateRounds, base: int = 1) -> RateTable:
    """The medians over the rounds; `base` is the number of equal members that further ones are compared with."""
    speeds = {name: [found["steps_per_second"] for found in rounds] for name, rounds in rates.items()}
    rows = tuple(
        RateRow(
            contender.name,
            contender.members,
            contender.n_envs,
            contender.space,
            median(speeds[contender.name]),
            tuple(speeds[contender.name]),
            _ratio(speeds[contender.name], speeds.get("sb3")),
            _ratio(speeds[contender.name], speeds.get("sbx")),
            median(1e3 * found["cpu_share"] / found["steps_per_second"] for found in rates[contender.name]),
            median(found["peak_rss_mb"] for found in rates[contender.name]),
            min(found["cpu_share"] for found in rates[contender.name]),
        )
        for contender in contenders
    )
    return RateTable(rows, base, further_member_share(speeds, base))


def latency_rows(latencies: LatencyRounds) -> tuple[LatencyRow, ...]:
    """The medians over the rounds."""
    return tuple(
        LatencyRow(
            name,
            _median_of([*cold, *warm], "import_seconds"),
            _median_of([*cold, *warm], "construct_seconds"),
            _median_of(cold, "first_update_seconds"),
            _median_of(warm, "first_update_seconds"),
        )
        for name, (cold, warm) in latencies.items()
    )


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


def rate_lines(table: RateTable, placement: Placement) -> list[str]:
    """A table in Markdown: medians, the lowest and the highest round, and what it took."""
    lines = [
        f"| {placement} | members | steps/s | rounds | × SB3 | × SBX | CPU ms/step | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in table.rates:
        spread = f"{_short(min(row.rounds))} to {_short(max(row.rounds))}"
        ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in (row.ratio_to_sb3, row.ratio_to_sbx)]
        cells = (
            row.name,
            members_label(row),
            _short(row.steps_per_second),
            spread,
            *ratios,
            f"{row.cpu_ms_per_step:.2f}",
            f"{row.peak_rss_mb:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    if placement == "pinned" and (busy := [row.name for row in table.rates if row.lowest_cpu_share < BUSY]):
        lines += ["", f"Other processes used the same core while {', '.join(busy)} ran: do not rely on these rows."]
    if table.further_member_share:
        shares = ", ".join(f"{count}: {share:.0%}" for count, share in table.further_member_share.items())
        lines += ["", f"Cost of a further equal member, as a share of the step with {table.base_members}: {shares}."]
    return lines


def latency_lines(rows: Sequence[LatencyRow]) -> list[str]:
    """A table in Markdown of the seconds that a user waits for the first update."""
    lines = [
        "| seconds | import | construct | first update, cold | first update, warm |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        values = (
            row.import_seconds,
            row.construct_seconds,
            row.cold_first_update_seconds,
            row.warm_first_update_seconds,
        )
        lines.append(f"| {row.name} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return lines


def _short(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 100 else f"{speed:.1f}"


def _ratio(speeds: Sequence[float], reference: Sequence[float] | None) -> float | None:
    if reference is None:
        return None
    return median(ours / theirs for ours, theirs in zip(speeds, reference, strict=True))


def _median_of(rounds: Iterable[dict[str, float]], key: str) -> float:
    return median(found[key] for found in rounds)


def members_label(row: RateRow) -> str:
    """The members of a contender in few words."""
    if row.space is not None:
        return f"{len(row.members)} in the space {row.space}"
    counts = Counter("x".join(map(str, layers)) for layers in row.members)
    different = len(row.members) > 1 and len(counts) == len(row.members)
    label = " ".join(counts) if different else ", ".join(f"{count} of {name}" for name, count in counts.items())
    return label if row.n_envs == 1 else f"{label}, {row.n_envs} environments"
