"""`make fuzz`: inputs that no peer, file or person should be able to hurt a decoder with, led by coverage.

Each target of tests/fuzz is run for its share of the time in a process of its own, with atheris (libFuzzer): it
begins with the corpus, and keeps what reaches new branches. An input that makes the target raise what it has no
right to raise, or takes longer than STUCK, is a crash.

    make fuzz MINUTES=30 TARGETS="json sql92"

At the end comes a table: inputs, crashes, the slowest input and the most memory of each target. What crashed is
kept in build/fuzz (feed it again with --feed FILE). With --merge what was found joins the corpus in the
repository, where each input that reaches nothing of its own is dropped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, cast

from twisted.logger import ILogObserver, globalLogBeginner

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "build" / "fuzz"

LONGEST: Final = 64 << 10
"""Bytes of an input."""
STUCK: Final = 10
"""Seconds that an input may take before it counts as a crash."""
MEMORY: Final = 2048
"""MiB that a process may have, likewise."""
KEPT: Final = 24 << 10
"""Bytes of inputs that a target's corpus in the repository may have; the longest are left out."""
NOTE: Final = 1.0
"""Seconds between two notes of a target's figures: libFuzzer ends the process without a word."""


class Figures(NamedTuple):
    """What came of one target. slowest: ms of the processor, for an input of so many bytes; memory: MiB."""

    inputs: int
    crashes: int
    slowest: float
    size: int
    memory: int

    def row(self, name: str) -> str:
        return (
            f"| `{name}` | {self.inputs:,} | {self.crashes} | {self.slowest:.1f} ms of {self.size:,} bytes | "
            f"{self.memory} MiB |"
        )


HEAD: Final = "| target | inputs | crashes | slowest input | peak memory |\n|---|---|---|---|---|"


def targets() -> Mapping[str, Any]:
    """All of them, by name."""
    found: Mapping[str, Any] = import_module("tests.fuzz.targets").TARGETS
    return found


def corpora() -> Any:
    """The module that reads and writes them. Tests aren't checked for types, so they're imported by name."""
    return import_module("tests.fuzz.target")


def forget_events() -> None:
    """Have what targets log thrown away. Until somebody takes it, Twisted keeps the last 200 events, and a store's
    refer to the store: that looks like a leak."""
    forgetting = cast(ILogObserver, lambda event: None)
    globalLogBeginner.beginLoggingTo([forgetting], discardBuffer=True, redirectStandardIO=False)


def feed_for_ever(name: str, arguments: Sequence[str], report: Path) -> None:
    """Run one target; never returns. arguments: libFuzzer's."""
    import atheris

    forget_events()
    with atheris.instrument_imports(include=["hatwisted"]):
        target = targets()[name]
    figures = {"inputs": 0, "slowest": 0.0, "size": 0}
    noted = 0.0

    def one(data: bytes) -> None:
        nonlocal noted
        began = time.thread_time()
        try:
            target.feed(data)
        finally:
            ended = time.thread_time()
            figures["inputs"] += 1
            # The first inputs pay for caches and imports.
            if figures["inputs"] > 100 and (ended - began) * 1000 > figures["slowest"]:
                figures["slowest"], figures["size"] = (ended - began) * 1000, len(data)
            if ended - noted > NOTE:
                noted = ended
                report.write_text(json.dumps(figures))

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def run(name: str, seconds: int) -> Figures:
    """Search with one target for so long."""
    folder = WORK / name
    corpus, crashes, report = folder / "corpus", folder / "crashes", folder / "figures.json"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    _unpack(name, corpus)
    known = len(list(crashes.iterdir()))
    ends, inputs, memory, slowest, size = time.monotonic() + seconds, 0, 0, 0.0, 0
    while (left := int(ends - time.monotonic())) > 0:
        options = [
            *(
                f"-max_total_time={left}",
                f"-max_len={LONGEST}",
                f"-timeout={STUCK}",
                f"-rss_limit_mb={MEMORY}",
            ),
            *("-print_final_stats=1", f"-artifact_prefix={crashes}/", "-verbosity=0", str(corpus)),
        ]
        done = _child(name, report, options)
        found = _stats(done.stderr)
        figures = json.loads(report.read_text()) if report.exists() else {}
        inputs += found.get("number_of_executed_units", figures.get("inputs", 0))
        memory = max(memory, found.get("peak_rss_mb", 0))
        if figures.get("slowest", 0.0) > slowest:
            slowest, size = figures["slowest"], figures["size"]
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-1000:], sep="\n", file=sys.stderr)
            if len(list(crashes.iterdir())) - known > 5:
                break
    return Figures(inputs, len(list(crashes.iterdir())) - known, slowest, size, memory)


def merge(name: str) -> tuple[int, int]:
    """Bring what was found into the repository; inputs and bytes that there are now."""
    target, reached = targets()[name], Reached()
    for data in target.seeds():
        reached.feed(target, data)
    found = [
        *corpora().read_corpus(name),
        *(path.read_bytes() for path in (WORK / name / "corpus").iterdir()),
    ]
    chosen, size = list[bytes](), 0
    for data in sorted(set(found), key=len):
        if size + len(data) > KEPT:
            break
        if reached.feed(target, data):
            chosen.append(data)
            size += len(data)
    if chosen:
        corpora().write_corpus(name, chosen)
    return len(chosen), size


class Reached:
    """Steps from line to line of our own code that inputs have led to so far."""

    def __init__(self) -> None:
        self._steps: set[tuple[str, int, int]] = set()

    def feed(self, target: Any, data: bytes) -> bool:
        """Does this one lead to any that no other did?"""
        before = len(self._steps)
        sys.settrace(self._enter)
        try:
            target.feed(data)
        finally:
            sys.settrace(None)
        return len(self._steps) > before

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        path = frame.f_code.co_filename
        if "/hatwisted/" not in path:
            return None
        add, last = self._steps.add, 0

        def step(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal last
            if event == "line":
                add((path, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step


def _unpack(name: str, folder: Path) -> None:
    """Corpus and seeds as files."""
    for number, data in enumerate([*corpora().read_corpus(name), *targets()[name].seeds()]):
        (folder / f"seed-{number}").write_bytes(data)


def _child(name: str, report: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.fuzz", "--target", name, "--report", str(report), "--", *options]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, errors="replace")


def _stats(text: str) -> dict[str, int]:
    """libFuzzer's last words."""
    lines = (line.removeprefix("stat::") for line in text.splitlines() if line.startswith("stat::"))
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}


def main() -> int:
    parser = argparse.ArgumentParser(description="look for inputs that hurt a decoder")
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument("--targets", nargs="*", help="names; all without")
    parser.add_argument("--merge", action="store_true", help="bring what is found into tests/fuzz/corpus")
    parser.add_argument("--feed", type=Path, help="feed this file to the one target, and show what it raises")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.target:
        feed_for_ever(options.target, [each for each in rest if each != "--"], options.report)
    names = options.targets or list(targets())
    if options.feed:
        targets()[names[0]].feed(options.feed.read_bytes())
        return 0
    found = {}
    for name in names:
        found[name] = run(name, max(1, int(options.minutes * 60 / len(names))))
        print(
            HEAD if len(found) == 1 else "",
            found[name].row(name),
            sep="\n" if len(found) == 1 else "",
            flush=True,
        )
        if options.merge:
            print(f"{name}: corpus of {merge(name)}", file=sys.stderr)
    print(f"{sum(each.inputs for each in found.values()):,} inputs", file=sys.stderr)
    return 1 if any(each.crashes for each in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
