"""One target: what is fed, what it may raise, and what it's fed at first."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.turns import Turns

CORPUS = Path(__file__).parent / "corpus"


class Target(NamedTuple):
    """A decoder.

    - run: decodes; also checks what has to hold of the result
    - errors: what it may raise
    - seeds: gives good inputs to begin with
    - once: where `run` decodes several times over, each of these alone, for measuring
    - tries: how many others are made of these, in a fraction of a second (tests/replay/replayed.py: a share)
    - turns: of a server, where its turns are measured
    """

    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]
    tries: int = 1000
    once: tuple[Callable[[bytes], object], ...] = ()
    turns: Turns | None = None

    def feed(self, data: bytes) -> None:
        """Raises what the target has no right to raise."""
        with contextlib.suppress(self.errors):
            self.run(data)


def read_corpus(name: str) -> list[bytes]:
    """A target's inputs: a line of base64 each."""
    path = CORPUS / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def write_corpus(name: str, inputs: Iterable[bytes]) -> None:
    """Shortest first."""
    lines = sorted({base64.b64encode(data).decode() for data in inputs}, key=lambda line: (len(line), line))
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
