"""What inputs of 64 KiB cost each decoder at most: time, and memory beside what the process had before.

    python -m tools.fuzzmeasure [TARGET ...]

Each target runs in a process of its own, without the instruments of the search (they keep what they compare).
The inputs are short patterns, repeated: those of the corpus and its seeds, pieces of them, and the ends of ranges.
Time is the processor's, for decoding once: what a target does several times over it names in `once`. A server
works on an input in many turns of the loop, between which others have theirs: of these the longest is told, too.
"""

from __future__ import annotations

import contextlib
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any, Final

from tools.fuzz import CHECKOUT, LONGEST, corpora, forget_events, targets

PATTERNS: Final = 300
"""Inputs of each target."""
LONGEST_PATTERN: Final = 400
DEAR: Final = (
    (b"[", b"2,"),
    (b"{", b"1:2,"),
    (b"[", b"[],"),
    (b"[", b"{},"),
    (b"", b'{"":'),
    (b"", b"a=\\n"),
)
"""Beginnings and patterns that cost a reader of text most, whichever the corpus has."""
SLOW: Final = 0.03
"""Seconds from which on an input is timed again, the quickest of AGAIN counting: the machine has other work."""
AGAIN: Final = 5


def inputs(name: str) -> Iterator[bytes]:
    """Whole ones and pieces, each repeated up to LONGEST."""
    random = Random(name)
    known = [*targets()[name].seeds(), *corpora().read_corpus(name)]
    patterns = [*import_module("tests.fuzz.mutation").NUMBERS, *(each for each in known if each)]
    while len(patterns) < PATTERNS:
        whole = random.choice(known)
        begin = random.randrange(len(whole) + 1)
        patterns.append(whole[begin : begin + random.randint(1, LONGEST_PATTERN)] or b"\0")
    heads = [random.choice(known)[: random.choice((0, 0, 1, 8, 64))] for _ in patterns]
    for head, pattern in [*zip(heads, patterns, strict=True), *DEAR]:
        yield (head + pattern * (LONGEST // len(pattern) + 1))[:LONGEST]


def measure(name: str) -> dict[str, float]:
    """Seconds and bytes of one target. turn: the longest of a server; of a decoder all of it is one."""
    target, slowest, longest = targets()[name], 0.0, 0.0
    forget_events()
    if target.turns is not None:
        target.turns.measuring = True
    for data in target.seeds():
        target.feed(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in inputs(name):
        gc.collect()  # of the input before, which is no longer in use
        for decode in target.once or (target.run,):
            taken, turn = _seconds(decode, data, target.turns)
            if taken > SLOW:
                again = [(taken, turn), *(_seconds(decode, data, target.turns) for _ in range(AGAIN))]
                taken, turn = min(each for each, _ in again), min(each for _, each in again)
            slowest, longest = max(slowest, taken), max(longest, turn)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": slowest, "turn": longest, "bytes": grown << 10}


def _seconds(decode: Any, data: bytes, turns: Any) -> tuple[float, float]:
    """Of the whole input, and of its longest turn."""
    if turns is not None:
        turns.longest = 0.0
    began = time.thread_time()
    with contextlib.suppress(Exception):
        decode(data)
    taken = time.thread_time() - began
    return taken, taken if turns is None else turns.longest


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    print("| target | longest turn | slowest 64 KiB | memory that it took |\n|---|---|---|---|")
    for name in sys.argv[1:] or targets():
        command = [sys.executable, "-m", "tools.fuzzmeasure", "--one", name]
        told = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True).stdout
        found = json.loads(told)
        print(
            f"| `{name}` | {found['turn'] * 1000:.1f} ms | {found['seconds'] * 1000:.1f} ms | "
            f"{found['bytes'] / (1 << 20):.1f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
