"""Brokers whose disks fill up under load: each store has a small file system of its own, which another fills."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from testbed.processes import Setting, wait_until
from tests.support.crashseries import MASTER, SLAVE, CrashSeries
from tests.support.recordeddisks import run

DISK_BYTES = 48 << 20
"""Of each; a series puts some megabytes."""
PIECE = 1 << 16
FULL_SECONDS = (0.5, 3.0)
ROOM_SECONDS = 60.0
"""A master looks at its disk every 5 s, a full slave dials as often."""


class FullDiskSeries(CrashSeries):
    """See CrashSeries; its strikes fill disks and make room again."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.strikes = {
            "fill master's disk": lambda: self.fill(MASTER),
            "fill slave's disk": lambda: self.fill(SLAVE),
            "fill both disks": lambda: self.fill(MASTER, SLAVE),
            "fill master's disk and kill it": lambda: self.fill(MASTER, kill=True),
            "fill slave's disk and kill it": lambda: self.fill(SLAVE, kill=True),
        }
        self.disks = {name: folder / f"{name}-disk" for name in (MASTER, SLAVE)}
        self.group.master_store = self.disks[MASTER] / "store"
        self.group.slave_store = self.disks[SLAVE] / "store"
        self._mounted = ExitStack()

    def _settings(self) -> dict[str, Setting]:
        # Nothing may expire that a producer got an answer for.
        return super()._settings() | {"cleanFileForciblyEnable": False}

    def __enter__(self) -> FullDiskSeries:
        with ExitStack() as stack:
            for disk in self.disks.values():
                disk.mkdir()
                run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk)
                stack.callback(run, "umount", disk)
            stack.callback(self.group.__exit__, None, None, None)
            super().__enter__()
            self._mounted = stack.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._mounted.close()

    def fill(self, *names: str, kill: bool = False) -> None:
        """Another program takes all the room there is, and gives it back a while later.

        - names: of the brokers whose disks it takes
        - kill: is the broker killed meanwhile?
        """
        ballasts = [self.disks[name] / "ballast" for name in names]
        for ballast in ballasts:
            fill_disk(ballast)
        time.sleep(self.random.uniform(*FULL_SECONDS))
        if kill:
            self.kill(*names)
        for ballast in ballasts:
            ballast.unlink()
        self._ready()
        wait_until(self._takes_puts, ROOM_SECONDS, "puts are answered SEND_OK again")

    def _takes_puts(self) -> bool:
        with self.group.master_client() as client:
            return client.send("Probe", b"probe").code == 0


def fill_disk(path: Path) -> None:
    """Write a file until there is no room."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PIECE))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def missing(folder: Path) -> str | None:
    """Why small disks can't be made on this machine; None: they can. folder: for a try."""
    if os.geteuid() != 0:
        return "mounting needs root"
    try:
        run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
        run("umount", folder)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None
