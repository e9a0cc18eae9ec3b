"""`make mutants`: what the unit tests of a room notice of small changes of its code.

mutmut makes the mutants and finds out which unit tests of the room reach each function. Here they are drawn,
tested (mutanttests.py), counted and compared with the goal:

    SAMPLE=100 SEED=7 make mutants ROOMS="ha put"

A full run takes hours, so SAMPLE mutants of a room (200; 0 for all) are drawn; SEED draws the same again. Left out
are those that change nothing but

- prose: log lines, texts of several words; tests quote words where somebody acts on them
- types: casts, an object's flag that begins as None instead of False, which mypy refuses and no `if` tells apart
- zip's `strict`: it's our own assertion that both are of one length

Survivors are listed in tests/mutants/survivors.toml with the reason why no test should catch them; they don't
count against the room. What survives and isn't listed is printed with its change, and a room that misses the goal
fails the run.

Rejected: cosmic-ray, which starts Python and pytest again for every mutant: seconds each, where a fork costs
milliseconds.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "build" / "mutants"
TOOLS = CHECKOUT / "tools"
SURVIVORS = CHECKOUT / "tests" / "mutants" / "survivors.toml"

GOAL: Final = 0.85
"""Share of a room's mutants that its unit tests have to catch."""
DEFAULT_SAMPLE: Final = 200
ROOM_MINUTES: Final = 60
"""A room's mutants that aren't tested by then aren't counted."""
PROGRESS_SECONDS: Final = 15.0

CONTEXT: Final = 60
"""Characters shown on either side of a change."""

SPINNER = re.compile("[\u2800-\u28ff] ")
LEVELS = frozenset("debug info warn error exception failure critical".split())
LOGGERS = re.compile(r"(\b|_)log(ger)?$")


class Room(NamedTuple):
    """Sources that are changed, and the unit tests that should notice, both relative to the checkout.

    without: of these tests, those that take seconds each, as every survivor would have to sit through them: an
        expression for pytest's -k. What they alone notice counts as surviving.
    """

    sources: Sequence[str]
    tests: Sequence[str]
    without: str = "none"


ROOMS: Final[Mapping[str, Room]] = {
    "store": Room(
        ["hatwisted/store/*"],
        ["tests/unit/store"],
        "B166_B168 or every_byte_of_the_last_record or rolling_mid_batch",
    ),
    "ha": Room(["hatwisted/ha/*"], ["tests/unit/ha"]),
    "put": Room(
        ["hatwisted/broker/put/*"],
        [f"tests/unit/broker/test_{name}.py" for name in ("innerput", "putack", "putstatus", "writepath")],
    ),
    "client": Room(
        ["hatwisted/client/*", "hatwisted/clientcore/*"],
        [
            "tests/unit/client",
            "tests/unit/clientcore",
            "tests/unit/remoting/test_client.py",
            "tests/unit/blocking",
        ],
    ),
}

COPIED: Final = ("hatwisted", "tests", "testbed", "conf", "docs")
"""What the unit tests of these rooms need of the checkout."""

# Zope's interfaces have no functions that could be exchanged.
SETTINGS = """
[mutmut]
source_paths =
    hatwisted
only_mutate =
{sources}
do_not_mutate =
    */interfaces.py
pytest_add_cli_args_test_selection =
{tests}
pytest_add_cli_args =
    -p
    no:cacheprovider
    -k
    not ({without})
also_copy =
    testbed
    conf
    docs
use_git_change_detection = false
track_dependencies = false
"""


@dataclass(frozen=True)
class Mutant:
    """One change. name: mutmut's; function: "module.Class.function"; lines: the changed ones, "- old", "+ new"."""

    name: str
    function: str
    lines: tuple[str, ...]
    words_only: bool


@dataclass
class Outcome:
    """What became of a room's sample."""

    drawn: list[Mutant]
    words: int
    caught: list[Mutant] = field(default_factory=list)
    survived: list[Mutant] = field(default_factory=list)
    listed: list[Mutant] = field(default_factory=list)
    untested: int = 0
    gone: list[str] = field(default_factory=list)
    """Functions of listed survivors that are no mutants any more: the code has changed."""

    @property
    def share(self) -> float:
        """Of those that a test could have caught."""
        tested = len(self.caught) + len(self.survived)
        return len(self.caught) / tested if tested else 0.0


# ---- the mutants of a room


def prepared(room: Room, folder: Path) -> Path:
    """A folder in which mutmut makes and knows the room's mutants; its subfolder with the changed sources."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:  # a copy, so that whoever goes on working doesn't change what is being tested
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    lists = {"sources": _indented(room.sources), "tests": _indented(room.tests), "without": room.without}
    (folder / "setup.cfg").write_text((CHECKOUT / "setup.cfg").read_text() + SETTINGS.format(**lists))
    # A name that fits no mutant: they are made, and the tests of each function found out, and that's all.
    command = [sys.executable, "-m", "mutmut", "run", "none"]
    made = _run(command, folder, {}, folder / "making.log", ROOM_MINUTES).replace("\r", "\n")
    if "nothing matches" not in made:
        said = [line for line in made.splitlines() if line.strip() and not SPINNER.match(line)]
        raise SystemExit(
            f"mutants: mutmut couldn't make mutants of {folder.name}: {' / '.join(said[-3:])}; do its unit tests "
            f"pass in {folder}/mutants with MUTANT_UNDER_TEST set to nothing?"
        )
    return folder / "mutants"


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def mutants_of(made: Path) -> Iterator[Mutant]:
    """All that mutmut has made."""
    for meta in sorted(made.rglob("*.py.meta")):
        names = json.loads(meta.read_text())["exit_code_by_key"]
        if names:
            functions = dict(_functions(ast.parse(meta.with_suffix("").read_text())))
            yield from (_mutant(name, functions) for name in names)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name:
            yield node.name, node


def _mutant(name: str, functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> Mutant:
    module, _, mangled = name.rpartition(".")
    stem = mangled.rpartition("__mutmut_")[0]
    original, changed = functions[f"{stem}__mutmut_orig"], functions[mangled]
    before, after = _body(original), _body(changed)
    plain = stem.removeprefix("xǁ").removeprefix("x_").replace("ǁ", ".")
    wordless = [_body(_Wordless().visit(copy.deepcopy(each))) for each in (original, changed)]
    return Mutant(name, f"{module}.{plain}", tuple(_difference(before, after)), wordless[0] == wordless[1])


def _difference(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The lines that differ, of long ones the part that does."""
    old = [line.strip() for line in before if line not in after]
    new = [line.strip() for line in after if line not in before]
    if len(old) == len(new) == 1:
        head = len(os.path.commonprefix([old[0], new[0]]))
        tail = len(os.path.commonprefix([old[0][head:][::-1], new[0][head:][::-1]]))
        old, new = ([_clipped(line, head, len(line) - tail)] for line in (old[0], new[0]))
    yield from (f"- {line}" for line in old)
    yield from (f"+ {line}" for line in new)


def _clipped(line: str, begin: int, end: int) -> str:
    first, last = max(begin - CONTEXT, 0), min(end + CONTEXT, len(line))
    return f"{'... ' if first else ''}{line[first:last]}{' ...' if last < len(line) else ''}"


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return ast.unparse(ast.Module([*function.body], [])).splitlines()


def _logs(function: ast.Attribute) -> bool:
    return function.attr in LEVELS and LOGGERS.search(ast.unparse(function.value)) is not None


class _Wordless(ast.NodeTransformer):
    """Empties what is left out, so that what is changed there makes no difference."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        own = all(isinstance(each, ast.Attribute) and each.attr.startswith("_") for each in node.targets)
        if own and isinstance(node.value, ast.Constant) and node.value.value is None:
            node.value = ast.Constant(False)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute) and _logs(function):
            return ast.Call(function, [], [])
        if isinstance(function, ast.Name) and function.id == "cast":
            value: ast.AST = self.visit(node.args[-1])
            return value
        if isinstance(function, ast.Name) and function.id == "zip":
            node.keywords = []
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        prose = isinstance(node.value, str) and " " in node.value
        return ast.Constant("") if prose else node


# ---- running them


def tested(
    room: Room, made: Path, drawn: Sequence[Mutant], jobs: int, minutes: float
) -> dict[str, bool | None]:
    """By name: was it caught? None for those there was no time for."""
    stats = json.loads((made / "mutmut-stats.json").read_text())
    seconds = stats["duration_by_test"]
    reached = {
        each.name: stats["tests_by_mangled_function_name"].get(each.name.rpartition("__mutmut_")[0], [])
        for each in drawn
    }
    plan, results, log = (made.parent / name for name in ("plan.json", "results.jsonl", "tests.log"))
    tests = {name: [(test, seconds[test]) for test in found] for name, found in reached.items() if found}
    plan.write_text(json.dumps({"jobs": jobs, "mutants": tests, "results": str(results)}))
    results.write_text("")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutanttests", "-p", "no:cacheprovider"]
    command += [*room.tests, "-k", f"not ({room.without})"]
    environment = {"MUTANT_UNDER_TEST": "", "HATWISTED_MUTANTS": str(plan), "PYTHONPATH": str(TOOLS)}
    said = _run(command, made, environment, log, minutes, lambda: _progress(results, len(tests)))
    outcomes = dict(json.loads(line) for line in results.read_text().splitlines())
    if tests and (None in outcomes or not outcomes):
        raise SystemExit(
            f"mutants: tests of {made.parent.name} fail without a mutant, see {log}: {said[-300:]}"
        )
    return {name: outcomes.get(name) if found else False for name, found in reached.items()}


def _run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    minutes: float,
    tell: Callable[[], None] = lambda: None,
) -> str:
    """Run a command and tell how it gets on now and then; what it said.

    - command: with its arguments
    - folder: where it works
    - environment: beside our own; PYTHONPATH is taken from it alone
    - log: gets all it says
    - minutes: it may take
    - tell: called every PROGRESS_SECONDS
    """
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    deadline = time.monotonic() + minutes * 60
    with log.open("w") as output:
        running = subprocess.Popen(
            command,
            cwd=folder,
            env={**inherited, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    running.wait(PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    tell()
                if time.monotonic() > deadline:
                    print(f"  stopped after {minutes:g} minutes", flush=True)
                    break
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
                running.wait()
    return log.read_text(errors="replace")


def _progress(results: Path, total: int) -> None:
    print(f"  {len(results.read_text().splitlines())} of {total} tested", flush=True)


# ---- what it comes to


def judged(
    room: Room, everything: Sequence[Mutant], drawn: Sequence[Mutant], caught: Mapping[str, bool | None]
) -> Outcome:
    """Sort a sample by what became of it.

    - room: whose it is
    - everything: the room's mutants
    - drawn: the sample
    - caught: by name, None for those that weren't tested
    """
    listed = [
        (each["function"], each["change"])
        for each in tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    ]
    outcome = Outcome(list(drawn), sum(mutant.words_only for mutant in everything))
    folders = tuple(each.replace("/", ".").removesuffix("*") for each in room.sources)
    known = {(mutant.function, mutant.lines) for mutant in everything}
    outcome.gone = [
        function
        for function, change in listed
        if function.startswith(folders) and (function, tuple(change)) not in known
    ]
    for mutant in drawn:
        was_caught = caught[mutant.name]
        if was_caught is None:
            outcome.untested += 1
        elif was_caught:
            outcome.caught.append(mutant)
        elif (mutant.function, list(mutant.lines)) in listed:
            outcome.listed.append(mutant)
        else:
            outcome.survived.append(mutant)
    return outcome


def report(outcomes: Mapping[str, Outcome]) -> str:
    """Survivors with their changes, then a line for each room."""
    lines = []
    for name, outcome in outcomes.items():
        for mutant in outcome.survived:
            lines += ["", f"{name}: {mutant.function}", *(f"    {line}" for line in mutant.lines)]
        for function in outcome.gone:
            lines += ["", f"{name}: {function}", f"    its change in {SURVIVORS.name} is no mutant any more"]
    lines += ["", "room      tested  caught   share  listed  not tested  words left out"]
    for name, outcome in outcomes.items():
        count = len(outcome.caught) + len(outcome.survived)
        lines.append(
            f"{name:8}  {count:6}  {len(outcome.caught):6}  {outcome.share:6.1%}  {len(outcome.listed):6}"
            f"  {outcome.untested:10}  {outcome.words:14}"
        )
    return "\n".join(lines)


def main() -> None:
    """See the module's text."""
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # mutmut's processes end with us
    options = argparse.ArgumentParser(description="What the unit tests notice of changed code.")
    options.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all by default")
    options.add_argument("--sample", type=int, default=DEFAULT_SAMPLE, help="mutants of a room; 0: all")
    options.add_argument("--seed", type=int, default=None, help="draws the same sample again")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    options.add_argument("--minutes", type=float, default=ROOM_MINUTES, help="of a room, at most")
    chosen = options.parse_args()
    if unknown := set(chosen.rooms) - set(ROOMS):
        options.error(f"no such room: {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    print(f"sample {chosen.sample or 'all'}, seed {seed}", flush=True)
    outcomes = {}
    for name in chosen.rooms or ROOMS:
        print(f"{name}: making mutants", flush=True)
        folder = WORK / name
        made = prepared(ROOMS[name], folder)
        everything = list(mutants_of(made))
        eligible = [mutant for mutant in everything if not mutant.words_only]
        size = min(chosen.sample or len(eligible), len(eligible))
        drawn = random.Random(seed).sample(eligible, size)
        print(
            f"  {len(everything)} mutants, {len(eligible)} of them of more than words, {size} drawn",
            flush=True,
        )
        caught = tested(ROOMS[name], made, drawn, chosen.jobs, chosen.minutes)
        outcomes[name] = judged(ROOMS[name], everything, drawn, caught)
    text = report(outcomes)
    (WORK / "report.txt").write_text(text + "\n")
    print(text)
    missed = [name for name, outcome in outcomes.items() if outcome.share < GOAL]
    if missed:
        sys.exit(f"below {GOAL:.0%}: {', '.join(missed)}")


if __name__ == "__main__":
    main()
