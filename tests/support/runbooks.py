"""docs/runbooks: the commands of a page at real servers, while somebody sends."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.remotingclient import RemotingFailure
from testbed.storefiles import read_log
from tests.support.clusterclient import RoutedProducer, SendFailed
from tests.support.pages import DOCS, blocks, put_in, run_block

RUNBOOKS = DOCS / "runbooks"
TOPIC = "Orders"
PAUSE = 0.005  # s between two sends: the pages are tried, not the speed
STOPPED = "while [ -e {pid} ]; do sleep 0.1; done"


class Runbook:
    """A page, tried in a folder.

    - name: of the page
    - folder: where its commands run
    - namesrv_port: of the name server
    - replaced: what else stands in the page for the test's, whole words
    """

    def __init__(
        self, name: str, folder: Path, namesrv_port: int, replaced: Mapping[str, object] | None = None
    ) -> None:
        self._folder = folder
        self._names = f"127.0.0.1:{namesrv_port}"
        self._replaced = {"127.0.0.1:9876": self._names, **(replaced or {})}
        self.blocks = blocks(RUNBOOKS / f"{name}.md")

    def run(self, code: str) -> str:
        """What a block prints; it has to end with 0."""
        done = run_block(put_in(code, self._replaced), self._folder, {"NAMESRV_ADDR": self._names})
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def run_section(self, heading: str) -> str:
        """What the blocks below a heading print, but for those that say that they aren't run here."""
        codes = [block.code for block in self.blocks if block.heading == heading and not block.mark]
        assert codes, f"no commands below {heading!r}"
        return "".join(map(self.run, codes))

    def split(self, heading: str) -> tuple[list[str], list[str]]:
        """The blocks to run above a heading, and those from there on."""
        mine = [block for block in self.blocks if not block.mark]
        at = next(number for number, block in enumerate(mine) if block.heading == heading)
        return [block.code for block in mine[:at]], [block.code for block in mine[at:]]

    def headings(self) -> list[str]:
        """Those with commands, in their order."""
        return list(dict.fromkeys(block.heading for block in self.blocks if not block.mark))

    def end(self) -> None:
        """Stop the servers that the page has started, by their pid files."""
        for pid in self._folder.glob("*/*.pid"):
            with suppress(AssertionError):
                self.run(f"kill $(cat {pid}) && {STOPPED.format(pid=pid)}")


class Traffic:
    """Sends to TOPIC while the context lasts, whoever takes it, and keeps what was answered with code 0."""

    def __init__(self, namesrv_port: int) -> None:
        self._producer = RoutedProducer(namesrv_port, TOPIC)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.stored: list[bytes] = []
        self.failed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        number = 0
        while not self._ended.wait(PAUSE):
            number += 1
            body = b"order %d" % number
            try:
                _, result = self._producer.send(body)
            except (SendFailed, OSError, RemotingFailure):
                self.failed += 1
                continue
            if result.code == 0:
                self.stored.append(body)


def missing_from(store: Path, stored: list[bytes]) -> list[bytes]:
    """What was answered as stored and isn't in a store's log."""
    there = {message.body for message in read_log(store) if message.topic == TOPIC}
    return [body for body in stored if body not in there]
