"""The text that Prometheus reads, made in steps and kept for a moment.

A scrape of a broker with thousands of series takes the time of thousands of series; in one piece, every put would
wait for it. So the text is made in steps of a slice of time each, and whoever asks while it's made, or shortly
after, gets the same one.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.metrics.families import Figures, Source, counter, gauge
from hatwisted.timing.steps import Steps
from hatwisted.wire.printable import printable

KEPT: Final = 1.0
"""Seconds for which a text is given again."""

PIECE: Final = 100
"""Samples that are written in one step, some 5 us each."""


class Exposition:
    """The text of all sources. clock: of the steps; sources: in the order in which they are shown."""

    def __init__(self, clock: IReactorTime, sources: Sequence[Source]) -> None:
        self._clock = clock
        self._sources = (*sources, self._own)
        self._steps = Steps(clock, "writing down figures")
        self._text = b""
        self._made_at = -KEPT
        self._waiting: list[Deferred[bytes]] | None = None
        """Who gets the text that is being made; None: none is."""
        self._scrapes = 0
        self._longest = 0.0

    def text(self) -> Deferred[bytes]:
        """All figures, no older than KEPT."""
        self._scrapes += 1
        if self._waiting is None and self._clock.seconds() - self._made_at < KEPT:
            return succeed(self._text)
        asked: Deferred[bytes] = Deferred()
        if self._waiting is not None:
            self._waiting.append(asked)
            return asked
        self._waiting = [asked]
        self._steps.run(self, self._make()).addCallbacks(self._made, self._failed)
        return asked

    def _make(self) -> Generator[None, None, bytes]:
        parts: list[bytes] = []
        begun = self._clock.seconds()
        for source in self._sources:
            for family in source():
                if family is not None:
                    for piece in pieces(family):
                        parts.append(piece)
                        begun = self._measure(begun)
                        yield
                        begun = self._clock.seconds()
                else:
                    begun = self._measure(begun)
                    yield
                    begun = self._clock.seconds()
        return b"".join(parts)

    def _measure(self, begun: float) -> float:
        now = self._clock.seconds()
        self._longest = max(self._longest, now - begun)
        return now

    def _made(self, text: bytes) -> None:
        self._text, self._made_at = text, self._clock.seconds()
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            each.callback(text)

    def _failed(self, failure: Failure) -> None:
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            each.errback(failure)

    def _own(self) -> Figures:
        yield counter("hatwisted_metrics_scrapes_total", "Scrapes answered.", self._scrapes)
        yield gauge(
            "hatwisted_metrics_longest_step_seconds",
            "Longest that the server was kept from its work by one step of a scrape.",
            self._longest,
        )


class _One(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


def pieces(family: Metric) -> Iterator[bytes]:
    """The family's text, PIECE samples at a time."""
    samples = family.samples
    for at in range(0, len(samples), PIECE):
        part = copy.copy(family)
        part.samples = samples[at : at + PIECE]
        text = _harmless(generate_latest(_One(part)))
        # What it is stands before its first samples alone.
        yield text if at == 0 else text.split(b"\n", 2)[2]


def _harmless(text: bytes) -> bytes:
    """Anybody names groups, and somebody looks at the text on a terminal."""
    found = text.decode()
    if found.replace("\n", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else printable(char).replace("\\", "\\\\")
        for char in found
    ).encode()
