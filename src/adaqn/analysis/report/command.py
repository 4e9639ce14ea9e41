"""`adaqn report`: writes the page, or serves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adaqn.base.errors import UserError
from adaqn.base.files import make_parent, replacing, require_free, require_ours
from adaqn.base.output import print_line
from adaqn.base.plugins import require_extra

_MARK = b'<meta name="generator" content="adaqn report">'


def write_report(
    paths: Sequence[Path], output: Path | None = None, epoch: int | None = None, force: bool = False
) -> Path:
    """Write the page about runs or studies; by default `report.html` in the given directory, or here for several."""
    check_paths(paths)
    path = (paths[0] / "report.html" if len(paths) == 1 else Path("report.html")) if output is None else Path(output)
    if output is not None:
        require_free(path, force)
    elif not force:
        require_ours(path, "report that adaqn wrote", _written_here, remedy="add --force")
    from adaqn.analysis.report.document import report_page

    page = report_page(paths, epoch)
    make_parent(path)
    with replacing(path) as file:
        file.write(page.encode())
    return path


def report(paths: Sequence[Path], output: Path | None, epoch: int | None, force: bool, live: bool, port: int) -> int:
    """`adaqn report`."""
    if not live:
        print_line(str(write_report(paths, output, epoch, force)))
        return 0
    if output is not None:
        raise UserError("--live serves the page instead of writing it: leave out --output, or --live")
    check_paths(paths)
    from adaqn.analysis.report.live import serve

    return serve(paths, epoch, port)


def check_paths(paths: Sequence[Path]) -> None:
    """Raise if a path does not exist, or if Bokeh is not installed."""
    for path in paths:
        if not path.is_dir():
            raise UserError(f"there is no directory {path}: name a run's directory, or that of a study")
    require_extra("a report", "bokeh", "report")


def _written_here(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK in file.read(1000)
    except OSError:
        return False
