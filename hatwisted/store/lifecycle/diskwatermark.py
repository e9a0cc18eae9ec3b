"""Whether the store's disks have room for more.

It looks by itself every few seconds rather than with each round of cleaning: puts are to be accepted again soon
after space is back. As in RocketMQ a disk is full above the warning level (90 %) and all right again at the level
of forced cleaning (85 %), so that it doesn't flap between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os.path import dirname
from typing import Final, NamedTuple, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.timing.periodic import PeriodicCall

WATERMARK_INTERVAL = 5.0
"""Seconds between looks at the disk."""


class FullDisk(NamedTuple):
    """What a full disk means for whoever appends, in the log's words: above the watermark, when the use has
    fallen again, and when a write has found no room."""

    above: str
    below: str
    no_room: str


FOR_A_MASTER: Final = FullDisk(
    "puts are refused", "puts are accepted again", "puts are refused until there is some"
)
FOR_A_SLAVE: Final = FullDisk(
    "this slave keeps copying, and stops acknowledging once a write finds no space",
    "this slave has space again",
    "this slave stops acknowledging until there is some",
)


@dataclass(frozen=True, kw_only=True)
class WatermarkLimits:
    """When a disk is full.

    - warning, clear: used fraction above which puts are refused, and down to which that lasts
    - needed: bytes that must be free before a disk that has refused a write is tried again (the next log file)
    - interval: seconds between looks
    """

    warning: float = 0.90
    clear: float = 0.85
    needed: int = 1 << 30
    interval: float = WATERMARK_INTERVAL


class DiskWatermark:
    """Is there room on the disks? Start it, or call `check`.

    - fs: the disks
    - paths: folders on them
    - clock: its timer
    - worker: measures the disks
    - limits: shares of the disk
    - meaning: gives what a full disk means at present, for the log
    """

    _log = Logger()

    def __init__(
        self,
        fs: IFileSystem,
        paths: Sequence[str],
        clock: IReactorTime,
        worker: IWorker,
        limits: WatermarkLimits | None = None,
        meaning: Callable[[], FullDisk] = lambda: FOR_A_MASTER,
    ) -> None:
        self._fs = fs
        self._worker = worker
        self._limits = limits or WatermarkLimits()
        self._clear = min(self._limits.clear, self._limits.warning)
        self._meaning = meaning
        self._loop = PeriodicCall(clock, "checking the disk", self.check)
        self._above: str | None = None
        self._refused: str | None = None
        self._unknown = False
        self.ratios: dict[str, float] = dict.fromkeys(paths, 0.0)
        """Used fraction (0 to 1) by path, as of the last look."""
        self.sizes: dict[str, tuple[int, int]] = dict.fromkeys(paths, (0, 0))
        """Bytes of the disk and of what is free, likewise."""

    @property
    def used(self) -> float:
        """Used fraction of the fullest disk."""
        return max(self.ratios.values(), default=0.0)

    @property
    def full_reason(self) -> str | None:
        """Why nothing may be appended, or None."""
        return self._refused or self._above

    @property
    def refused_a_write(self) -> bool:
        """Has a disk said that it's full, whatever its figures are?"""
        return self._refused is not None

    def note_full(self, reason: str) -> None:
        """A write found no room: full until a look finds `needed` bytes free."""
        if self._refused is None:
            self._log.warn(
                "no space on the disk: {reason}; {meaning}", reason=reason, meaning=self._meaning().no_room
            )
        self._refused = reason

    def start(self) -> None:
        """Look now, and from then on at each interval."""
        self._loop.start(self._limits.interval, now=True)

    def stop(self) -> None:
        """Stop looking."""
        self._loop.stop()

    def check(self) -> Deferred[None]:
        """Look at the disks; fires when the figures are in, and doesn't fail."""
        looked = cast("Deferred[dict[str, tuple[int, int]]]", self._worker.run(self._look, list(self.ratios)))
        return looked.addCallbacks(self._judge, self._blind)

    def _look(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        return {path: self._fs.usage(self._existing(path)) for path in paths}

    def _existing(self, path: str) -> str:
        """The folder that `path` will be made in: its own may not be there yet."""
        while not self._fs.exists(path) and dirname(path) != path:
            path = dirname(path)
        return path

    def _judge(self, usage: dict[str, tuple[int, int]]) -> None:
        self._unknown = False
        self.sizes |= usage
        for path, (total, free) in usage.items():
            self.ratios[path] = 1 - free / total if total else 0.0
        used = self.used
        if used > self._limits.warning:
            fullest = max(self.ratios, key=self.ratios.__getitem__)
            if self._above is None:
                self._log.warn(
                    "{path}: {used:.1%} of the disk is used, {meaning}",
                    path=fullest,
                    used=used,
                    meaning=self._meaning().above,
                )
            self._above = (
                f"{used:.1%} of the disk under {fullest} is used, the limit is {self._limits.warning:.0%}"
            )
        elif used <= self._clear and self._above is not None:
            self._log.info(
                "{used:.1%} of the disk is used, {meaning}", used=used, meaning=self._meaning().below
            )
            self._above = None
        if self._refused is not None and min(free for _, free in usage.values()) >= self._limits.needed:
            self._log.info("the disk has space again; it had refused a write: {was}", was=self._refused)
            self._refused = None

    def _blind(self, failure: Failure) -> None:
        """What was known last stays; said once, for it's likely to last."""
        if not self._unknown:
            self._log.warn("can't determine disk usage: {error}", error=failure.value)
        self._unknown = True
