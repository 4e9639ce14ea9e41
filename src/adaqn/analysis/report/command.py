"""`adaqn report`: write the page once, or keep it up to date while runs are going on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from adaqn.analysis.report.document import report_page
from adaqn.analysis.report.sources import fingerprint
from adaqn.base.errors import UserError
from adaqn.base.files import make_parent, replacing, require_free, require_ours
from adaqn.base.output import print_line
from adaqn.base.plugins import require_extra

HOST = "127.0.0.1"


def serve(paths: Sequence[Path], epoch: int | None = None, port: int = 0) -> int:
    """Serve the page until the user interrupts."""
    with server(paths, epoch, port) as serving:
        print_line(f"http://{HOST}:{serving.server_port}/ follows {', '.join(map(str, paths))}; Ctrl-C ends it")
        try:
            serving.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return 0
    return 0


def server(paths: Sequence[Path], epoch: int | None = None, port: int = 0) -> ReportServer:
    """A server of the page on the loopback interface; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise UserError(f"a port is a number from 0 to 65535, but got {port}")
    try:
        return ReportServer(paths, epoch, port)
    except OSError as error:
        raise UserError(f"cannot listen on port {port} of {HOST}: {error.strerror or error}") from error


class ReportServer(ThreadingHTTPServer):
    """Two addresses: `/` is the page, `/state` changes when a file does. There are no others, so no path is opened."""

    daemon_threads = True

    def __init__(self, paths: Sequence[Path], epoch: int | None, port: int) -> None:
        self._paths, self._epoch = tuple(paths), epoch
        self._lock = threading.Lock()
        self._made = ("", b"")  # state and page
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that left before it had the whole page."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]

    def state(self) -> str:
        """A text that changes when a file does."""
        return fingerprint(self._paths)

    def page(self) -> bytes:
        """The page for the current state of the files, made only once for each state."""
        with self._lock:
            state = self.state()
            if self._made[0] != state:
                self._made = (state, report_page(self._paths, self._epoch, state).encode())
            return self._made[1]


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "adaqn", ""

    def do_GET(self) -> None:
        """Answer a request."""
        # Another site could otherwise read the page by letting its own name lead to this machine.
        allowed = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in allowed:
            self._answer(HTTPStatus.FORBIDDEN, b"only this machine's own name is answered\n")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, self.server.page(), "text/html; charset=utf-8")
        elif self.path == "/state":
            self._answer(HTTPStatus.OK, self.server.state().encode())
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there is only /\n")

    def _answer(self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about requests."""


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
    from adaqn.analysis.report.command import serve

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
