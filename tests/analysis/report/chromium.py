"""Headless Chromium, driven through its DevTools protocol: what a page logs, requests and shows."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

PATIENCE = 60.0  # seconds, on a machine that is busy


def chromium_path() -> str | None:
    """Where the browser is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page in a browser, and everything that it reported."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the preferred colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str, ready: str) -> None:
        """Load a page, and wait until an expression is true on it."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && ({ready})")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > until:
                raise TimeoutError(f"never true on the page: {expression}")
            time.sleep(0.1)

    def value(self, expression: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(image["data"]))

    @property
    def complaints(self) -> list[Any]:
        """Exceptions, and errors or warnings on the console."""
        found = []
        for event in self.events:
            given = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(given["exceptionDetails"])
            elif event.get("method") == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
                found.append(given["args"])
            elif event.get("method") == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"])
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses that were requested; those of data inside the page are no requests."""
        sent = [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]  # fmt: skip
        return [url for url in sent if not url.startswith(("data:", "blob:"))]


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own, and end it."""
    path = chromium_path()
    assert path is not None
    process = subprocess.Popen(
        [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-extensions", "--remote-debugging-port=0",
         f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        chosen, until = profile / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not (chosen.is_file() and chosen.read_text().count("\n") >= 1):
            if time.monotonic() > until or process.poll() is not None:
                raise TimeoutError(f"{path} did not start (exit status {process.poll()})")
            time.sleep(0.1)
        port, route = chosen.read_text().split("\n")[:2]
        with connect(f"ws://127.0.0.1:{port}{route}", max_size=None, open_timeout=PATIENCE, proxy=None) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
