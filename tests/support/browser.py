"""A headless Chromium, driven over its own debugging pipe (the Chrome DevTools Protocol): no driver to install.

with Chromium(binary) as browser:
    browser.open(path)
    browser.press("ArrowRight")
    assert browser.ask("document.title") == "..."
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ANSWER_LIMIT = 60.0
"""Seconds for an answer of the browser: its start on a busy machine."""

CODES = {"p": 80, ",": 188, ".": 190, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
"""Windows' key codes, which the protocol asks for."""

SHIFT = 8

AS_THREE_AND_FOUR = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the browser, which reads commands from descriptor 3 and writes answers to 4."""


def find_chromium() -> str | None:
    """The path of an installed one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Refused(AssertionError):
    """A command or an expression failed, in the browser's words."""


class Chromium:
    """One browser with one page. complaints: errors and warnings in its console."""

    def __init__(self, binary: str) -> None:
        self.complaints: list[str] = []
        # Its processes may write there for a moment after their end was asked for.
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._number = 0
        self._unread = b""
        self._session: str | None = None
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                AS_THREE_AND_FOUR,
                str(their_in),
                str(their_out),
                binary,
                *self._options(),
            ],
            pass_fds=(their_in, their_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(their_in)
        os.close(their_out)
        target = self._command("Target.createTarget", url="about:blank")["targetId"]
        attached = self._command("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._command(f"{domain}.enable")

    def _options(self) -> list[str]:
        return [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._folder.name}",
            "--no-sandbox",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--proxy-server=127.0.0.1:1",  # nothing gets out
            "about:blank",
        ]

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    # -- what a test does ------------------------------------------------------------------------------------

    def trust_everybody(self) -> None:
        """Whose certificate it may be."""
        self._command("Security.enable")
        self._command("Security.setIgnoreCertificateErrors", ignore=True)

    def open(self, path: Path) -> None:
        """Show a file, and wait until it's loaded."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """The same of a URL."""
        self._command("Page.navigate", url=address)
        deadline = time.monotonic() + ANSWER_LIMIT
        while not self._shows(address):
            assert time.monotonic() < deadline, f"{address} isn't loaded in {ANSWER_LIMIT} s"
            time.sleep(0.02)

    def _shows(self, address: str) -> bool:
        with suppress(Refused):  # the page that was asked has just given way to the next
            shown: str = self.ask("location.href + document.readyState")
            return shown == address + "complete"
        return False

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        told = self._command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise Refused(told["exceptionDetails"])
        return told["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key and let it go."""
        of_key = {"key": key, "windowsVirtualKeyCode": CODES[key], "modifiers": SHIFT if shift else 0}
        self._command("Input.dispatchKeyEvent", type="rawKeyDown", **of_key)
        self._command("Input.dispatchKeyEvent", type="keyUp", **of_key)

    def click(self, x: float, y: float) -> None:
        """Press the mouse there (CSS pixels) and let go."""
        for kind in ("mousePressed", "mouseReleased"):
            self._command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int) -> None:
        """Be as large as that (CSS pixels)."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def darken(self) -> None:
        """The reader prefers dark pages."""
        self._command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
        )

    def picture(self, path: Path) -> None:
        """Of the whole page, as PNG."""
        shot = self._command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    # -- the pipe --------------------------------------------------------------------------------------------

    def _command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise Refused(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method"), message.get("params", {}))

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], ANSWER_LIMIT)
            assert ready, f"the browser is silent for {ANSWER_LIMIT} s"
            read = os.read(self._in, 1 << 20)
            assert read, "the browser is gone"
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, method: str | None, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(told["entry"]["text"]))
