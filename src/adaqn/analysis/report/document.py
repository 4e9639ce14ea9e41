"""The whole page: what was read, its parts, and everything that a browser needs, in one file."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from adaqn import __version__
from adaqn.analysis.report.charts import Charts
from adaqn.analysis.report.markup import Markup, element, joined, notice
from adaqn.analysis.report.run import run_section
from adaqn.analysis.report.sources import Sources, read_sources
from adaqn.analysis.report.study import comparison, study_section
from adaqn.runs.recorders.summary import FINAL_EPISODES

GENERATOR = "adaqn report"
MOST_RUNS = 12  # that are shown one by one
# Nothing is loaded from anywhere; when the page is served, it asks its own server whether something is new.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; media-src data:; "
    "font-src data:; connect-src {connect}"
)


def report_page(paths: Sequence[Path], epoch: int | None = None, state: str = "") -> str:
    """The page about everything at or below the paths.

    `state` is given when the page is served: the browser then asks for changes, and links to elsewhere are not read.
    """
    found, charts = read_sources(paths, confined=bool(state)), Charts()
    sections = _sections(found, charts, epoch)
    body = joined(
        element("section", element("h2", title) if len(sections) > 1 else "", content, id=f"part-{number}")
        for number, (title, content) in enumerate(sections)
    )
    filled, drawing = charts.filled(body)
    return _page(_title(found), sections, filled, charts.library, drawing, state)


def _sections(found: Sources, charts: Charts, epoch: int | None) -> list[tuple[str, Markup]]:
    sections = []
    for path in found.empty:
        known = "has no run in it yet: no directory in it has a config.yaml" if path.is_dir() else "does not exist"
        sections.append((str(path), notice(f"{path} {known}.")))
    for study in found.studies:
        sections.append((f"Study {study.root.resolve().name}", study_section(study, charts, epoch)))
    if len(found.runs) > 1:
        sections.append(("Runs compared", comparison(found.runs, charts)))
    for run in found.runs[:MOST_RUNS]:
        sections.append((run.name, run_section(run, charts)))
    if len(found.runs) > MOST_RUNS:
        left = len(found.runs) - MOST_RUNS
        sections.append(("More runs", notice(f"{left} more runs are in the comparison only: name fewer to see them.")))
    return sections


def _title(found: Sources) -> str:
    names = [study.root.resolve().name for study in found.studies] + [run.name for run in found.runs]
    if not names:
        return "Nothing to report yet"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _page(title: str, sections: Sequence[tuple[str, Markup]], body: str, library: str, drawing: str, state: str) -> str:
    policy = _POLICY.format(connect="'self'" if state else "'none'")
    links = [
        element("li", Markup(f'<a href="#part-{number}">{escape(name)}</a>'))
        for number, (name, _) in enumerate(sections)
    ]
    now = datetime.datetime.now().astimezone()
    made = f"Made by adaqn {__version__} on {now:%Y-%m-%d at %H:%M %Z}."
    follows = " This page follows the files and reloads when they change." if state else ""
    scripts = "".join(f"<script>{script}</script>\n" for script in (library, drawing, _file("page.js")) if script)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="{GENERATOR}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)} · adaqn</title>
<link rel="icon" href="data:,">
<style>{_file("page.css")}</style>
</head>
<body{f' data-state="{escape(state)}"' if state else ""}>
<header><h1>{escape(title)}</h1>
<p class="soft">{made}{follows}</p>
{element("nav", element("ul", *links)) if len(links) > 1 else ""}
<noscript><p class="notice">The charts need JavaScript; the texts and tables are complete without it.</p></noscript>
</header>
<main>
{body}
</main>
<footer>IQM: interquartile mean. AUC: area under the curve, divided by the steps. Final return of a run: mean of its
last {FINAL_EPISODES} episodes. Steps are environment steps.</footer>
{scripts}</body>
</html>
"""


def _file(name: str) -> str:
    return resources.files("adaqn.analysis.report").joinpath(name).read_text("utf-8")
