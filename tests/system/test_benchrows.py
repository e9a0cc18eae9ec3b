"""What the benchmark's rows over sizes rest on: CPU time of processes, sizes that are asked for, plots."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip(
    "matplotlib", reason="the plots' library isn't installed: pip install \"hatwisted[bench]\""
)

from matplotlib.figure import Figure as Canvas

from bench import history
from bench.__main__ import _options, _size
from bench.figures import Figure
from bench.plots import draw_all
from bench.sparkpeers import LABELS
from testbed.processtree import TICKS, cpu_seconds, descendants

SECONDS = 0.3
BURN = f"import time\nwhile time.process_time() < {SECONDS}: pass\n"


def test_a_child_that_has_ended_stands_in_its_parents_time() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert cpu_seconds(os.getpid()) - before >= SECONDS - 2 / TICKS


def test_one_that_lives_is_found_with_what_it_started() -> None:
    inner = [sys.executable, "-c", f"{BURN}print('burnt', flush=True)\ninput()"]
    outer = [sys.executable, "-c", f"import subprocess; subprocess.run({inner!r})"]
    with subprocess.Popen(outer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found, cost = descendants(process.pid), cpu_seconds(process.pid)
        process.communicate("\n")
    assert len(found) == 1
    assert cost >= SECONDS - 2 / TICKS


def test_none_is_missed_whose_thread_ends() -> None:
    """Its children are another thread's then: in a Java machine, the workers of a query."""
    many = (
        "import subprocess, threading, time\n"
        "print(flush=True)\n"
        "def start(): subprocess.Popen(['sleep', '0.2'])\n"
        "begun = time.monotonic()\n"
        "while time.monotonic() < begun + 3:\n"
        "    threads = [threading.Thread(target=start) for _ in range(8)]\n"
        "    for each in threads: each.start()\n"
        "    for each in threads: each.join()\n"
    )
    with subprocess.Popen([sys.executable, "-c", many], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        looks = []
        while process.poll() is None:
            looks.append(set(descendants(process.pid)))
    missed = [
        (first & third) - second
        for first, second, third in zip(looks[:-2], looks[1:-1], looks[2:], strict=True)
    ]
    assert len(looks) > 10
    assert not any(missed)


def test_sizes_that_are_asked_for() -> None:
    assert _options(["--gib", "4", "--gib", "0.5"]).gib == [4.0, 0.5]
    assert _options([]).gib == []


@pytest.mark.parametrize("text", ["0", "-1", "nan", "2000", "inf"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        _size(text)


def test_both_sides_lines_by_cores(tmp_path: Path) -> None:
    points = [
        {"gib": gib, "cores": cores, "what": what, "kind": kind, "seconds": gib / cores, "cpu": gib}
        for gib in (1, 4)
        for cores in (1, 2)
        for what in LABELS
        for kind in ("ours", "java")
    ]
    memory = {"python": 600.0, "jvm": 500.0}
    growth = {
        key: [{"gib": gib, "cores": cores, "seconds": gib / cores, **memory} for gib in (1, 4)]
        for key, cores in (("data", 2), ("cores", 1))
    }
    splits = [{"partitions": 4, "seconds": 1.0}, {"partitions": 16, "seconds": 2.0}]
    rows = {
        "spark-kafka": {"series": {"points": points}},
        "spark-growth": {"series": growth | {"splits": splits}},
    }
    drawn = dict(reversed(each) for each in draw_all(rows, [], tmp_path / "plots", tmp_path))
    assert len(drawn) == len(LABELS) + 2
    for path in drawn:
        text = (tmp_path / path).read_text()
        if "kafka" in path:
            lines = ("hatwisted, 1 core", "hatwisted, 2 cores", "source, 1 core", "source, 2 cores")
            assert all(line in text for line in lines), path
    grown = (tmp_path / "plots" / "spark-data.svg").read_text()
    assert "1 core" in grown
    assert "2 cores" in grown


def test_history_goes_from_revision_to_revision(tmp_path: Path) -> None:
    """A row that has never been measured is not among the lines."""
    figures = {
        ("v2", "pull"): Figure("pull, 4 consumers", "msgs/s", [1], [2], "–"),
        ("v3", "memory"): Figure("anonymous memory of the master under load", "MB", [30], [], "–"),
        ("v10", "pull"): Figure("pull, 4 consumers", "msgs/s", [3], [2], "–"),
    }
    past = [
        history.of(f"2026-11-21T0{hour}:00+00:00", version, row, each)
        for hour, ((version, row), each) in enumerate(figures.items())
    ]
    axes = Canvas().subplot_mosaic(history.LAYOUT)
    history.draw(past, axes)
    lines = {str(line.get_label()): line for each in axes.values() for line in each.get_lines()}
    drawn = {
        name: np.asarray(line.get_xydata()).tolist()
        for name, line in lines.items()
        if not name.startswith("_")
    }
    assert drawn == {"pull": [[0, 0.5], [2, 1.5]], "master under load": [[1, 30]]}
    for each in axes.values():
        assert [tick.get_text() for tick in each.get_xticklabels()] == ["v2", "v3", "v10"]
    ((_, path),) = draw_all({}, past, tmp_path / "plots", tmp_path)
    assert path == "plots/history.svg"
    assert "master under load" in (tmp_path / path).read_text()
