"""`hatwisted up`: name server, master and slave in one terminal, with their logs in one stream, for trying out.

Three real processes as an operator would start them; Ctrl-C ends them in order, the slave first, and on their
`leash` they don't outlive a command that is killed.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click

from hatwisted.cli.cluster.newslave import free_port, is_free, port_lock
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.host.groupplan import Ports, members
from hatwisted.cli.host.localgroup import LocalGroup
from hatwisted.cli.host.serverprocess import process_parts
from hatwisted.cli.output import echo_json, folded
from hatwisted.cli.storeholder import store_holder
from hatwisted.wire.printable import printable

COLOURS: Final = {"names": None, "master": "green", "slave": "magenta"}
"""Those that are read on a light terminal as on a dark one."""
NAMES_PORTS: Final = (9876, 9976)
"""Where the name server's port is looked for."""
LOG_LINE: Final = re.compile(r"[-\d]{10}T([:\d]{8})[-+]\d{4} \[(?:[^]#]*#(\w+)|[^]]*)\] (.*)")
"""Of a server: time, level and text."""
TWISTED_S_OWN: Final = re.compile(
    r"twistd \S+ \(.*\) starting up\.|reactor class: .*|\w+ starting on \S+|\(.* Closed\)|Main loop terminated\."
)
"""What the framework says of itself, by names of classes: the servers say in their own words what it means."""
PREFIX: Final = 9
"""Columns of a server's name before its line."""
INDENT: Final = PREFIX + len("00:00:00 ")


@click.command()
@click.option("--dir", "folder", default="hatwisted-up", show_default=True, type=click.Path(file_okay=False))
@click.option("--async", "asynchronous", is_flag=True, help="Answer sends before the slave has them.")
@click.option("--quiet", "-q", is_flag=True, help="Don't show the servers' logs.")
@click.option("--json", "as_json", is_flag=True, help="Each line as a JSON object: who says what.")
def up(folder: str, asynchronous: bool, quiet: bool, as_json: bool) -> None:
    """Run a whole group on this machine, for trying out.

    Ctrl-C ends it, and the next `up` goes on with the same stores. Only this machine can reach it.

    Exit codes: 0 ended by Ctrl-C; 1 a server ended by itself; 2 it couldn't start.
    """
    target = Path(folder).absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"{target}: can't be made: {error.strerror}") from None
    for store in ("master", "slave"):
        if holder := store_holder(str(target / store)):
            raise CannotRun(
                f"{target} is in use by process {holder}: end the group that runs there, or give another --dir"
            )
    screen = TerminalScreen(quiet, as_json)
    with ExitStack() as choosing:
        choosing.enter_context(port_lock(screen.warn))
        plan = members(str(target), free_ports(), sync=not asynchronous)
        group = LocalGroup(plan, screen, process_parts(target))
        # Signals count until the last one has ended: the second hastens that.
        with interruptible(group.interrupt):
            failed = group.run(choosing.close)
    sys.exit(EXIT_PROBLEMS if failed else EXIT_OK)


def free_ports(free: Callable[[int], bool] = is_free) -> Ports:
    """RocketMQ's usual ones if they are free, else the next. free: is this one?"""
    names = next((port for port in range(*NAMES_PORTS) if free(port)), None)
    if names is None:
        raise CannotRun(f"no free port for the name server from {NAMES_PORTS[0]} to {NAMES_PORTS[1] - 1}")
    master = free_port(free=free)
    return Ports(names, master, free_port(master + 10, free))


def short_line(line: str) -> str | None:
    """A server's line for who watches: neither the day nor who logged it, and a mark at what isn't well. None: it
    says nothing to them."""
    found = LOG_LINE.fullmatch(line)
    if found is None:
        return line
    at, level, text = found.groups()
    if TWISTED_S_OWN.fullmatch(text):
        return None
    return f"{at} {'' if level in (None, 'info', 'debug') else '! '}{text}"


class TerminalScreen:
    """A `localgroup.Screen`.

    - quiet: what servers say isn't shown
    - as_json: each line as an object
    - short: lines as people watch them, as they are logged otherwise; None: on a terminal
    """

    def __init__(self, quiet: bool, as_json: bool, short: bool | None = None) -> None:
        self._quiet = quiet
        self._as_json = as_json
        self._short = sys.stdout.isatty() if short is None else short

    def said(self, name: str, line: str) -> None:
        """As Screen."""
        if self._quiet:
            return
        if self._as_json:
            echo_json({"from": name, "text": line})
            return
        wanted = short_line(line) if self._short else line
        if wanted is None:
            return
        shown = folded(printable(wanted), INDENT, f"{name:<6} | ")
        click.secho(shown[:PREFIX], fg=COLOURS[name], nl=False)
        click.echo(shown[PREFIX:])

    def tell(self, text: str, ready: Mapping[str, str]) -> None:
        """As Screen."""
        if not self._as_json:
            click.secho(text, bold=True)
            return
        echo_json({"from": "up", "text": text} | ({"ready": ready} if ready else {}))

    def warn(self, text: str) -> None:
        """As Screen."""
        click.echo(text, err=True)


@contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[None]:
    """What ends a program calls `interrupt` instead, meanwhile."""

    def caught(number: int, frame: object) -> None:
        interrupt()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, caught) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
