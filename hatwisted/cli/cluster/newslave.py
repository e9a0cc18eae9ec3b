"""A slave's process and folder on this host: free ports, room, its files, and twistd.

Started as an operator would, by twistd in the background; what it says of a start that can't work is repeated.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hatwisted.cli.cluster.slaveplan import Place, daemon_command
from hatwisted.cli.errors import CannotRun
from hatwisted.clientcore.address import parse_address
from hatwisted.config.javaproperties import with_properties
from hatwisted.wire.storenames import LOCK_FILE, LOG_FOLDER

FIRST_PORT: Final = 10911
LAST_PORT: Final = 11911
"""Where a free listenPort is looked for; its neighbours -2 and +1 must be free, too."""
NEIGHBOURS: Final = (0, -2, 1)
CONNECT_TIMEOUT: Final = 3.0
"""Seconds for a connection to the master's HA port."""
START_TIMEOUT: Final = 120.0
"""Seconds for twistd to return: it checks configuration, store and ports before."""
LOCK_PATIENCE: Final = 180.0
"""Seconds that another command may choose its ports for: three servers start meanwhile."""
LOCK_POLL: Final = 0.1
MOMENT: Final = 1.0
"""Seconds until somebody is told what is waited for."""
MOST_STARTS: Final = 5
"""Ports tried, one after the other, that others take between a look and a start."""

Run = Callable[..., subprocess.CompletedProcess[str]]


class PortTaken(CannotRun):
    """Another server listens there by now."""


def place_of(folder: Path, master_address: str, port: int | None, address: str | None) -> Place:
    """Where a slave would run on this host.

    - folder: for its files; its disk's free space counts
    - master_address: the own address is the one that reaches this
    - port: its listenPort; None: the first that is free
    - address: the own one; None: found out
    """
    folder = folder.absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return Place(
        folder=str(folder),
        address=address or own_address(master_address),
        port=port or free_port(),
        free=shutil.disk_usage(existing).free,
    )


def own_address(master_address: str) -> str:
    """By which this host reaches another: nothing is sent, the kernel just chooses a route."""
    host, port = parse_address(master_address)
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise CannotRun(f"{master_address}: can't be reached from here: {error.strerror or error}") from None


@contextmanager
def port_lock(tell: Callable[[str], object]) -> Iterator[None]:
    """Held from the choice of ports until servers listen there: two commands at once would choose the same ones.
    Where there is no place for the lock they may. CannotRun if another holds it for longer than LOCK_PATIENCE.

    tell: what is waited for, if that takes a moment
    """
    path = Path(tempfile.gettempdir(), f"hatwisted-up-{os.getuid()}.lock")
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        _take(lock, path, tell)
        yield
    finally:
        os.close(lock)


def _take(lock: int, path: Path, tell: Callable[[str], object]) -> None:
    begun, told = time.monotonic(), False
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        waited = time.monotonic() - begun
        if waited > LOCK_PATIENCE:
            raise CannotRun(
                f"{path}: another `hatwisted up` or `attach` has been choosing its ports for "
                f"{LOCK_PATIENCE:.0f} s: end that one first"
            )
        if waited > MOMENT and not told:
            tell("waiting for another `hatwisted up` or `attach` to start what it has chosen ports for")
            told = True
        time.sleep(LOCK_POLL)


def is_free(port: int) -> bool:
    """Could a server listen there?"""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_port(first: int = FIRST_PORT, free: Callable[[int], bool] = is_free) -> int:
    """The first listenPort, from `first` on, whose three ports are free. free: is this one?"""
    for port in range(first, LAST_PORT, 10):
        if all(free(port + each) for each in NEIGHBOURS):
            return port
    raise CannotRun(
        f"no free listenPort from {first} to {LAST_PORT}: stop what listens there; attach takes one by --port"
    )


def answers(address: str) -> bool:
    """Does somebody listen there?"""
    try:
        socket.create_connection(parse_address(address), CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True


def check_connects(address: str) -> None:
    """CannotRun if nobody listens there."""
    try:
        socket.create_connection(parse_address(address), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise CannotRun(
            f"the master's HA port {address} can't be reached from here: {error.strerror or error}; "
            "open it in the firewall, or set brokerIP2 at the master to an address that this host reaches"
        ) from None


def check_new(store: str) -> None:
    """CannotRun if the store has a log: of which broker nothing says, and the copy would go on where it ends."""
    try:
        there = any(Path(store, LOG_FOLDER).iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotRun(f"{error.filename or store}: can't be read: {error.strerror}") from None
    if there:
        raise CannotRun(
            f"{store}: has a log already, and no configuration beside it says that it's this slave's: choose "
            "another folder with --dir"
        )


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Into a folder of its own, readable by its user alone; what is there is kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in files.items():
            _write(folder / name, text)
    except FileExistsError as error:
        raise CannotRun(f"{error.filename}: is there already: choose another folder with --dir") from None
    except OSError as error:
        raise CannotRun(f"{error.filename or folder}: can't be written: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """Whole or not at all: half a configuration would be taken for one that was made before."""
    with open(path, "x", opener=_private) as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink()
            raise


def change_port(conf: Path, port: int) -> None:
    """The listenPort of a configuration; all else stays as it is."""
    try:
        conf.write_bytes(with_properties(conf.read_bytes(), {"listenPort": str(port)}))
    except OSError as error:
        raise CannotRun(f"{conf}: can't be written: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def twistd() -> str:
    """The program, of this environment."""
    beside = Path(sys.executable).with_name("twistd")
    return str(beside) if beside.exists() else shutil.which("twistd") or "twistd"


def is_served(store: str) -> bool:
    """Does a broker of this host run on the store? It holds its lock then."""
    try:
        with open(Path(store) / LOCK_FILE, "rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def start_where_free(
    port: int, starts: Callable[[], None], move: Callable[[int], None], free: Callable[[int], int] = free_port
) -> int:
    """Start on a port that was free a moment ago, or on the next one that is; the port that it is.

    - port: in the configuration
    - starts: with that
    - move: changes it there to another port
    - free: the first that is, from one on
    """
    for _ in range(MOST_STARTS - 1):
        try:
            starts()
            return port
        except PortTaken:
            port = free(port + 10)
            move(port)
    starts()
    return port


def start(folder: Path, run: Run = subprocess.run) -> None:
    """In the background; CannotRun with its own words if it doesn't."""
    command = daemon_command(twistd(), str(folder))
    try:
        done = run(command, capture_output=True, text=True, timeout=START_TIMEOUT, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"twistd can't be started: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        kind = PortTaken if os.strerror(errno.EADDRINUSE) in done.stderr else CannotRun
        raise kind(f"the slave didn't start: {said[0]} (its log: {folder}/slave.log)")
    for line in done.stderr.splitlines():
        print(line, file=sys.stderr)
