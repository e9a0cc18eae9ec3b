"""An honest client in a process of its own: what others do to a broker shows in how long its messages take.

    python -m tests.support.bystander PORT PID...

sends a message every STEP seconds until its standard input ends, and looks at the processes' memory (RssAnon)
all the while; then it writes one line of JSON: the seconds that each message took, those of them that the first
process's main thread has run, the codes that weren't SEND_OK, and the most bytes that any of the processes had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.processes import memory_of
from testbed.remotingclient import RemotingClient
from tests.support.ownpace import scheduled

STEP = 0.005
LOOK = 0.02
"""Seconds between looks at the memory."""
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Watched:
    """seconds: of each message; ran: those of them for which the first process's main thread had a processor;
    refused: answers that weren't SEND_OK; peak: most bytes of RssAnon."""

    seconds: Sequence[float]
    ran: Sequence[float]
    refused: Sequence[int]
    peak: int

    @property
    def p99(self) -> float:
        return _p99(self.seconds)

    @property
    def p99_ran(self) -> float:
        """What of a message's time was the first process's own computing, whatever else the machine does."""
        return _p99(self.ran)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


class Bystander:
    """Watches from `with` on; `result` is there after it."""

    def __init__(self, port: int, *pids: int) -> None:
        self._command = [sys.executable, "-m", "tests.support.bystander", str(port), *map(str, pids)]
        self.result: Watched | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "sending\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate(timeout=120)
        if kind is None:
            self.result = Watched(**json.loads(told))


def main() -> None:
    port, pids = int(sys.argv[1]), [int(pid) for pid in sys.argv[2:]]
    over, peak = threading.Event(), 0
    seconds, ran, refused = list[float](), list[float](), list[int]()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    def look() -> None:
        nonlocal peak
        while not over.wait(LOOK):
            peak = max(peak, *map(memory_of, pids))

    with RemotingClient("127.0.0.1", port, 60) as client:
        client.send("Bystander", b"first")
        for task in (wait, look):
            threading.Thread(target=task, daemon=True).start()
        print("sending", flush=True)
        while not (seconds and over.wait(STEP)):
            began, had, (_, late) = time.monotonic(), scheduled(pids[0])[0], scheduled(os.getpid())
            code = client.send("Bystander", b"honest").code
            seconds.append(time.monotonic() - began)
            # What it did while the answer was there and nobody had a processor to take it is no wait for it.
            late = scheduled(os.getpid())[1] - late
            ran.append(max(0, scheduled(pids[0])[0] - had - late) / 1e9)
            if code:
                refused.append(code)
    print(json.dumps({"seconds": seconds, "ran": ran, "refused": refused, "peak": peak}))


if __name__ == "__main__":
    main()
