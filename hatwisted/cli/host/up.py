"""`hatwisted up`: name server, master and slave in one terminal, with their logs in one stream, for trying out.

Three real processes as an operator would start them; Ctrl-C ends them in order, the slave first, and on their
`leash` they don't outlive a command that is killed. A thread for each reads its output, so that none ever waits
for another's.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.cli.cluster.newslave import answers, free_port, is_free, port_lock, twistd
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.host.groupplan import HOST, Member, Ports, members
from hatwisted.cli.host.leash import leashed
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.survey import Survey
from hatwisted.wire.printable import printable

START_SECONDS: Final = 60.0
"""For one server until it answers: a store is recovered first."""
STOP_SECONDS: Final = 30.0
"""For an orderly end of one; then it is killed."""
POLL: Final = 0.2
"""Seconds between looks at what has ended."""
LINES: Final = 10_000
"""Of output that wait to be shown; a server that says more waits."""
COLOURS: Final = {"names": "cyan", "master": "green", "slave": "yellow"}
NAMES_PORTS: Final = (9876, 9976)
"""Where the name server's port is looked for."""


@click.command()
@click.option("--dir", "folder", default="hatwisted-up", show_default=True, type=click.Path(file_okay=False))
@click.option("--async", "asynchronous", is_flag=True, help="Answer sends before the slave has them.")
@click.option("--quiet", "-q", is_flag=True, help="Don't show the servers' logs.")
@click.option("--json", "as_json", is_flag=True, help="Each line as a JSON object: who says what.")
def up(folder: str, asynchronous: bool, quiet: bool, as_json: bool) -> None:
    """Run a whole group on this machine, for trying out.

    Ctrl-C ends it, and the next `up` goes on with the same stores. Only this machine can reach it. Exit codes: 0
    ended by Ctrl-C; 1 a server ended by itself; 2 it couldn't start.
    """
    target = Path(folder).absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"{target}: can't be made: {error.strerror}") from None
    with ExitStack() as choosing:
        choosing.enter_context(port_lock())
        group = Group(
            members(str(target), free_ports(), sync=not asynchronous), target, Screen(quiet, as_json)
        )
        # Signals count until the last one has ended: the second hastens that.
        with _interruptible(group), group.ended():
            group.start()
            choosing.close()
            group.wait_linked()
            if not group.stopping:
                addresses = {each.name: f"{HOST}:{each.port}" for each in group.members}
                group.tell(_ready(group.members), **addresses)
            failed = group.watch()
    sys.exit(EXIT_PROBLEMS if failed else EXIT_OK)


def free_ports() -> Ports:
    """RocketMQ's usual ones if they are free, else the next."""
    names = next((port for port in range(*NAMES_PORTS) if is_free(port)), None)
    if names is None:
        raise CannotRun(f"no free port for the name server from {NAMES_PORTS[0]} to {NAMES_PORTS[1] - 1}")
    master = free_port()
    return Ports(names, master, free_port(master + 10))


def _ready(group: list[Member]) -> str:
    names = f"{HOST}:{group[0].port}"
    return (
        f"ready: name server {names}, master {HOST}:{group[1].port}, slave {HOST}:{group[2].port}\n"
        "In another terminal:\n"
        f"  export NAMESRV_ADDR={names}\n"
        "  echo hello | hatwisted produce Hello\n"
        "  hatwisted consume Hello --from first --count 1\n"
        "  hatwisted status\n"
        "Ctrl-C ends all three."
    )


class Screen:
    """Where lines go. quiet: those of servers don't; as_json: each as an object."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self._quiet = quiet
        self._as_json = as_json

    def said(self, name: str, line: str) -> None:
        """By a server."""
        if self._quiet:
            return
        if self._as_json:
            click.echo(msgspec.json.encode({"from": name, "text": line}))
            return
        click.secho(f"{name:<6} | ", fg=COLOURS[name], nl=False)
        click.echo(printable(line))

    def tell(self, text: str, ready: Mapping[str, str]) -> None:
        """By this command. ready: the servers' addresses, once they can be used."""
        if not self._as_json:
            click.secho(text, bold=True)
            return
        click.echo(msgspec.json.encode({"from": "up", "text": text} | ({"ready": ready} if ready else {})))


class Group:
    """The servers' processes.

    - members: in the order of their start
    - folder: where they run
    - screen: for what they say
    """

    def __init__(self, members: list[Member], folder: Path, screen: Screen) -> None:
        self.members = members
        self.stopping = False
        self._folder = folder
        self._screen = screen
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._lines: queue.Queue[tuple[str, str]] = queue.Queue(LINES)
        self._killing = False

    def start(self) -> None:
        """One after the other, each once the one before answers; CannotRun for one that doesn't."""
        for member in self.members:
            if self.stopping:
                return
            self._running[member.name] = self._process(member)
            until = time.monotonic() + START_SECONDS
            while not self.stopping and not answers(f"{HOST}:{member.port}"):
                self._show()
                if self._running[member.name].poll() is not None or time.monotonic() > until:
                    self._show()
                    raise CannotRun(f"{member.name} didn't start: see above")

    def wait_linked(self) -> None:
        """Until the master has a slave to copy to: before, a send would be answered SLAVE_NOT_AVAILABLE."""
        names, master, _ = (f"{HOST}:{member.port}" for member in self.members)
        driver = BlockingDriver(Links(ClusterSettings(name_servers=(names,))))
        survey = Survey(ClusterLink(driver, names).session)
        until = time.monotonic() + START_SECONDS
        while not self.stopping and time.monotonic() < until:
            words = driver.run(survey.broker(master))
            if words.error is None and (words.ha or {}).get("inSyncSlaveNums"):
                break
            self._show()
        driver.wait(driver.close())

    def watch(self) -> bool:
        """Show what they say until somebody interrupts, or one ends; did one?"""
        while not self.stopping:
            self._show()
            for name, process in self._running.items():
                if process.poll() is not None:
                    self.tell(f"{name} has ended with {process.returncode}; ending the others")
                    return True
        return False

    @contextmanager
    def ended(self) -> Iterator[None]:
        """End all at the end, the last one first."""
        try:
            yield
        finally:
            for name, process in reversed(self._running.items()):
                self._end(name, process)
            self._show()

    def interrupt(self) -> None:
        """End in order; the second time, at once."""
        self._killing, self.stopping = self.stopping, True

    def tell(self, text: str, **ready: str) -> None:
        """Something of ours. ready: the servers' addresses, once they can be used."""
        self._show()
        self._screen.tell(text, ready)

    def _process(self, member: Member) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            leashed(twistd(), "-n", "--pidfile=", "--logfile=-", *member.words),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C is ours alone: they end in order
        )
        threading.Thread(target=self._read, args=(member.name, process.stdout), daemon=True).start()
        return process

    def _read(self, name: str, stream: Any) -> None:
        for line in stream:
            self._lines.put((name, line))

    def _show(self) -> None:
        """What has come, and what comes in a moment."""
        until = time.monotonic() + POLL
        while True:
            try:
                name, line = self._lines.get(timeout=max(0.0, until - time.monotonic()) or 0.001)
            except queue.Empty:
                return
            self._screen.said(name, line.rstrip("\n"))
            if time.monotonic() > until:
                return

    def _end(self, name: str, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        while process.poll() is None:
            self._show()
            if self._killing or time.monotonic() > until:
                process.kill()
                process.wait()
                click.echo(f"{name}: killed; its next start recovers its store", err=True)


@contextmanager
def _interruptible(group: Group) -> Iterator[None]:
    def caught(number: int, frame: object) -> None:
        group.interrupt()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, caught) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
