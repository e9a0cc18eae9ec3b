"""The life of a group in one terminal: started one after the other, shown while it runs, ended in order.

What a server is and how one is asked are parts (`serverprocess` has the real ones), so this holds the order alone.
Whoever waits here shows what the servers say meanwhile, as none of them may wait for another's output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.host.groupplan import HOST, Member

START_SECONDS: Final = 60.0
"""For one server until it answers: a store is recovered first."""
STOP_SECONDS: Final = 30.0
"""For an orderly end of one; then it is killed."""
POLL: Final = 0.2
"""Seconds between looks at what has ended."""


class Server(Protocol):
    """One that was started."""

    def ended_with(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def terminate(self) -> None:
        """Ask it to end in order."""

    def kill(self) -> None:
        """End it at once, and wait until it has."""


class Screen(Protocol):
    """Where lines go."""

    def said(self, name: str, line: str) -> None:
        """By a server."""

    def tell(self, text: str, ready: Mapping[str, str]) -> None:
        """By the command. ready: the servers' addresses, once they can be used."""

    def warn(self, text: str) -> None:
        """By the command, of something that isn't well."""


@dataclass(frozen=True, kw_only=True)
class GroupParts:
    """What a group gets from outside.

    - start: a server
    - take: the next line that one has said, by its name; None if there is none within so many seconds
    - answers: does somebody listen at "host:port"?
    - slaves: how many a master has that are level, by the addresses of name server and master
    - seconds: a monotonic clock
    """

    start: Callable[[Member], Server]
    take: Callable[[float], tuple[str, str] | None]
    answers: Callable[[str], bool]
    slaves: Callable[[str, str], int]
    seconds: Callable[[], float]


class LocalGroup:
    """Its servers, as they come and go.

    - members: in the order of their start: name server, master, slave
    - screen: for what they say
    - parts: from outside
    """

    def __init__(self, members: Sequence[Member], screen: Screen, parts: GroupParts) -> None:
        self._members = members
        self._screen = screen
        self._parts = parts
        self._running: dict[str, Server] = {}
        self._stopping = False
        self._killing = False

    def run(self, listening: Callable[[], object]) -> bool:
        """Until somebody interrupts, or a server ends by itself; did one? CannotRun for one that doesn't start.

        listening: called once all of them do
        """
        with self._ended():
            self._start()
            listening()
            self._wait_linked()
            if not self._stopping and not self._gone():
                self._tell(_ready(self._members), {each.name: _address(each) for each in self._members})
            return self._watch()

    def interrupt(self) -> None:
        """End in order; the second time, at once. From a signal's handler, too."""
        self._killing, self._stopping = self._stopping, True

    def _start(self) -> None:
        """One after the other, each once the one before answers."""
        for member in self._members:
            if self._stopping:
                return
            server = self._running[member.name] = self._parts.start(member)
            until = self._parts.seconds() + START_SECONDS
            while not self._stopping and not self._parts.answers(_address(member)):
                self._show()
                if server.ended_with() is not None or self._parts.seconds() > until:
                    raise CannotRun(f"{member.name} didn't start: see above")

    def _wait_linked(self) -> None:
        """Until the master has a slave to copy to: before, a send would be answered SLAVE_NOT_AVAILABLE."""
        names, master, _ = map(_address, self._members)
        until = self._parts.seconds() + START_SECONDS
        while not self._stopping and not self._gone() and not self._parts.slaves(names, master):
            self._show()
            if self._parts.seconds() > until:
                raise CannotRun(f"slave doesn't copy from its master after {START_SECONDS:g} s: see above")

    def _watch(self) -> bool:
        """Show what they say until somebody interrupts, or one ends; did one?"""
        while not self._stopping:
            self._show()
            for name, status in self._gone().items():
                self._tell(f"{name} has ended with {status}; ending the others")
                return True
        return False

    def _gone(self) -> dict[str, int]:
        """Who has ended, and how."""
        found = ((name, server.ended_with()) for name, server in self._running.items())
        return {name: status for name, status in found if status is not None}

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """End all at the end, the last one first."""
        try:
            yield
        finally:
            for name, server in reversed(self._running.items()):
                self._end(name, server)
            self._show()

    def _end(self, name: str, server: Server) -> None:
        if server.ended_with() is None:
            server.terminate()
        until = self._parts.seconds() + STOP_SECONDS
        while server.ended_with() is None:
            self._show()
            if self._killing or self._parts.seconds() > until:
                server.kill()
                self._screen.warn(f"{name}: killed; its next start recovers its store")
                return

    def _tell(self, text: str, ready: Mapping[str, str] | None = None) -> None:
        self._show()
        self._screen.tell(text, ready or {})

    def _show(self) -> None:
        """What has come, and what comes in a moment."""
        until = self._parts.seconds() + POLL
        while (left := until - self._parts.seconds()) > 0:
            line = self._parts.take(left)
            if line is not None:
                self._screen.said(*line)


def _address(member: Member) -> str:
    return f"{HOST}:{member.port}"


def _ready(members: Sequence[Member]) -> str:
    names, master, slave = map(_address, members)
    return (
        f"ready: name server {names}, master {master}, slave {slave}\n"
        "In another terminal:\n"
        f"  export NAMESRV_ADDR={names}\n"
        "  echo hello | hatwisted produce Hello\n"
        "  hatwisted consume Hello --from first --count 1\n"
        "  hatwisted status\n"
        "Ctrl-C ends all three."
    )
