"""Where a server's log goes, and how it looks: text or JSON lines, on standard output or in a file that rotates.

twistd's own log file rotates at 1 MB and keeps every file there ever was. Ours begins a new file each day, or at a
size, and keeps some of the former ones; SIGHUP has it opened again under its name, for those who rotate it
themselves (logrotate).

Rejected: keys in the configuration file. It's RocketMQ's, and the log is twistd's, whose `--logfile` stands on the
command line.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from twisted.logger import FileLogObserver, ILogObserver, LogEvent, formatEvent, textFileLogObserver
from twisted.python.logfile import LogFile
from twisted.python.usage import UsageError

from hatwisted.store.disk.filesystem import FILE_MODE, PRIVATE

DEFAULT_FILE: Final = "twistd.log"
"""A daemon's, as twistd names it."""
KEPT_FILES: Final = 10
DAILY: Final = "daily"
NEVER: Final = "never"
FORMATS: Final = ("text", "json")
_SHIFTS: Final = {"k": 10, "m": 20, "g": 30}


class RotatedLog(LogFile):
    """A log file that begins anew at a size, or with a new day.

    - path: of the file
    - size: bytes; None: by day, or never
    - kept: former files that are kept, `path`.1 is the newest
    - today: the present day; None: not by day
    - mode: permissions of a new file; one that is there keeps its own, and gives them to those that follow it
    """

    def __init__(
        self,
        path: Path,
        size: int | None,
        kept: int,
        today: Callable[[], date] | None = None,
        mode: int = FILE_MODE & ~PRIVATE,
    ) -> None:
        self._today = today
        super().__init__(
            path.name, str(path.parent), rotateLength=size, defaultMode=mode, maxRotatedFiles=kept
        )

    def _openFile(self) -> None:
        with suppress(OSError):
            self.defaultMode = stat.S_IMODE(Path(self.path).stat().st_mode)
        super()._openFile()
        modified = datetime.fromtimestamp(Path(self.path).stat().st_mtime).date()
        self._day = modified if self.size else self._today and self._today()

    def reopen(self) -> None:
        """See LogFile. Raises OSError, and goes on with the file as it was, where that can't be: a log that is
        closed has no place for the reason either."""
        former = self._file
        try:
            self._openFile()
        except OSError:
            self._file = former
            raise
        former.close()

    def shouldRotate(self) -> bool:
        """See LogFile: asked before each write."""
        if self._today is not None:
            return bool(self.size and self._day != self._today())
        return bool(super().shouldRotate())


class LogPlan:
    """What the command line says about the log. Raises UsageError.

    - rotate: "daily", "never", or a size such as 64m
    - kept: former files to keep
    - form: "text" or "json"
    - umask: permissions that new files don't get
    """

    def __init__(self, rotate: str, kept: str, form: str, umask: int = PRIVATE) -> None:
        self._size = _size(rotate)
        self._daily = rotate == DAILY
        if not kept.isdecimal() or not int(kept):
            raise UsageError(f"--log-keep {kept}: must be a number, 1 or more")
        self._kept = int(kept)
        if form not in FORMATS:
            raise UsageError(f"--log-format {form}: must be text or json")
        self._form = form
        self._mode = FILE_MODE & ~umask
        self._file: RotatedLog | None = None

    def observer(self, path: str | None, *, daemon: bool) -> ILogObserver:
        """What writes the log. path: as in twistd's --logfile; daemon: has the process left its terminal?"""
        if path == "-" and daemon:
            sys.exit("Daemons cannot log to stdout, exiting!")
        out: Any
        if path == "-" or (not path and not daemon):
            out = sys.stdout
        else:
            today = date.today if self._daily else None
            out = self._file = RotatedLog(
                Path(path or DEFAULT_FILE).absolute(), self._size, self._kept, today, self._mode
            )
        if self._form == "json":
            return FileLogObserver(out, json_line)
        observer: ILogObserver = textFileLogObserver(out)
        return observer

    def reopen(self) -> None:
        """Open the file under its name again: it may have been moved away. Raises OSError."""
        if self._file is not None:
            self._file.reopen()


class ProcessLog:
    """What twistd calls to get this process's log. It takes a name alone, and imports that: hence the one object
    of a module."""

    def __init__(self) -> None:
        self._make: Callable[[], ILogObserver] | None = None

    def use(self, plan: LogPlan, path: str | None, *, daemon: bool) -> str:
        """The name to give to twistd.

        - plan: of the log
        - path: as in twistd's --logfile
        - daemon: does the process leave its terminal?
        """
        self._make = partial(plan.observer, path, daemon=daemon)
        return f"{__name__}.process_log"

    def __call__(self) -> ILogObserver:
        assert self._make is not None
        return self._make()


process_log = ProcessLog()


def _size(rotate: str) -> int | None:
    if rotate in (DAILY, NEVER):
        return None
    digits, shift = rotate.lower().removesuffix("b"), 0
    if digits[-1:] in _SHIFTS:
        digits, shift = digits[:-1], _SHIFTS[digits[-1]]
    if not digits.isdecimal() or not int(digits):
        raise UsageError(f"--log-rotate {rotate}: must be daily, never, or a size such as 64m")
    return int(digits) << shift


def json_line(event: LogEvent) -> str:
    """An event as one line: time (UTC), level, event (a stable name, where it has one), source, text, and the
    fields that the text was made of."""
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(event["log_time"], UTC).isoformat(timespec="milliseconds"),
        "level": event["log_level"].name if event.get("log_level") is not None else "info",
    }
    if isinstance(name := event.get("event"), str):
        fields["event"] = name
    fields["source"] = event.get("log_namespace", "")
    fields["text"] = formatEvent(event)
    if failure := event.get("log_failure"):
        fields["traceback"] = failure.getTraceback()
    plain = {
        key: value
        for key, value in event.items()
        if not key.startswith("log_") and key not in _NOT_FIELDS and isinstance(value, (str, int, float))
    }
    if plain:
        fields["fields"] = plain
    return msgspec.json.encode(fields).decode() + "\n"


_NOT_FIELDS: Final = frozenset(("event", "format", "isError", "message", "printed", "system", "time", "line"))
"""Of Twisted's former way to log, and what the text is already."""
