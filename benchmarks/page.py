"""The tables of `docs/benchmarks.md`, written from the JSON files in `benchmarks/results`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.isolation import PLACEMENTS, ROOT
from benchmarks.summary import LatencyRow, RateRow, RateTable, latency_lines, rate_lines
from benchmarks.tasks import TASKS

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_page(page: Path = PAGE, results: Path = RESULTS) -> None:
    """Replace what is between the two marks of the page by the tables of all tasks that were measured."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    records = [json.loads(path.read_text()) for name in TASKS if (path := results / f"throughput-{name}.json").exists()]
    # Results from before both placements were measured say nothing about what a user gets.
    sections = "\n\n".join("\n".join(section_lines(record)) for record in records if "placements" in record)
    page.write_text(f"{before}{BEGIN}\n\n{sections}\n\n{END}{after}")


def section_lines(record: dict[str, Any]) -> list[str]:
    """What was measured on one task, in Markdown."""
    machine, protocol = record["machine"], record["protocol"]
    lines = [
        f"## {record['environment']}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores; {protocol['rounds']} rounds of {protocol['timed_steps']} steps; "
        f"the environment alone takes {record['environment_steps_per_second']:,.0f} steps/s.",
    ]
    for placement in PLACEMENTS:
        if placement in record["placements"]:
            lines += ["", *rate_lines(_table(record["placements"][placement]), placement)]
    if record["latencies"]:
        lines += ["", *latency_lines([LatencyRow(**row) for row in record["latencies"]])]
    return lines


def _table(values: dict[str, Any]) -> RateTable:
    rows = tuple(RateRow(**row) for row in values["rates"])
    return RateTable(rows, values["base_members"], values["further_member_share"])


if __name__ == "__main__":
    write_page()
