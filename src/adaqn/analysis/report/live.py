"""`adaqn report --live`: serves the page to this machine alone, and lets it follow the files."""

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
from adaqn.base.output import print_line

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
