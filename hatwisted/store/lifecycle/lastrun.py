"""Whether this store holds all that a master has said of it: `lastrun`, a file that each run leaves for the next.

Clients remember offsets. They can trust a master that begins again as a master with everything that it had: after
an orderly stop, or after one of the process alone, which takes nothing from the kernel's page cache. Any other
start may be one with less: after a power failure or a crash of the system, of a store that was a slave's, or
that another program has had. So the file says as what the run served, in which boot of the system, and after an
orderly stop where the log ended.

And it says whether a slave's log may have messages of its own, since it was a master's and hasn't been found to be
the present master's yet.

What it can't show is a folder that was put back from a copy made while nothing ran.
"""

from __future__ import annotations

import json
from contextlib import closing
from os.path import join
from typing import Any

from twisted.logger import Logger

from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.wire.storenames import LAST_RUN_FILE

MAX_BYTES = 4096
"""Of the file; a longer one isn't ours."""


class LastRun:
    """What the previous run has left, and what this one leaves.

    - fs: the disk
    - root: the store folder, locked when anything is written
    - boot: the system's boot, by a name that no other has; empty if that can't be known, and nothing is trusted
      after an unclean exit then
    """

    _log = Logger()

    def __init__(self, fs: IFileSystem, root: str, boot: str) -> None:
        self._fs = fs
        self._path = join(root, LAST_RUN_FILE)
        self._boot = boot
        self._complete = False
        self._master = False
        self.own = False
        """May the log of this slave have messages that its master's lacks?"""

    @property
    def same_boot(self) -> bool:
        """Has the system been up since the previous run? Blocks."""
        return bool(self._boot) and self._read().get("boot") == self._boot

    def compare(self, report: RecoveryReport) -> None:
        """The store has been loaded, as `report` says. Blocks."""
        last = self._read()
        if report.unclean:
            kept = bool(self._boot) and last.get("boot") == self._boot and not report.kept_aside
        else:
            kept = last.get("end") == report.end
        self._complete = kept and last.get("master") is True

    def serve(self, master: bool) -> bool:
        """We serve as a master, or as a slave, from now on. Is it a master's store that has lost nothing? Blocks;
        to be called before anything is appended."""
        complete, self._complete = self._complete and master, False
        self._master = master
        last = self._read()
        self.own = not master and _may_have_own(last)
        self._write({"master": master, "boot": self._boot, "own": master or self.own})
        return complete

    def found_same(self) -> None:
        """This slave's log has been found to be the master's, as far as it goes; a kill doesn't take that back.
        Blocks if it wasn't known."""
        if self.own:
            self.own = False
            self._write({"master": False, "boot": self._boot, "own": False})

    def stop(self, end: int) -> None:
        """An orderly stop; the log ends at `end` and gets no more. Blocks."""
        own = self._master or self.own
        self._write({"master": self._master, "boot": self._boot, "own": own, "end": end})

    def cut(self) -> None:
        """An operator cuts the log, which isn't what any run has left then; it may have messages of its own as
        before. Blocks."""
        self._write({"own": _may_have_own(self._read())})

    def _read(self) -> dict[str, Any]:
        try:
            with closing(self._fs.open(self._path, read_only=True)) as file:
                data = file.pread(MAX_BYTES + 1, 0)
            last = json.loads(data) if len(data) <= MAX_BYTES else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return last if isinstance(last, dict) else {}

    def _write(self, run: dict[str, Any]) -> None:
        try:
            replace_file(self._fs, self._path, json.dumps(run).encode())
        except OSError as error:
            # No word at all is safer than the last run's: the next start trusts nothing then.
            self._log.warn("can't write {path}: {error}", path=self._path, error=error)
            self._fs.remove(self._path)


def _may_have_own(last: dict[str, Any]) -> bool:
    return last.get("own", last.get("master")) is True
