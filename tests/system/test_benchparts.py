"""Parts of the benchmark by themselves: the relay with a delay, bare loops, revisions side by side."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from bench import against, bareloops, delayline, kafkajob, peers
from testbed.brokergroup import OURS
from testbed.processes import REPOSITORY

SECONDS = 30.0
DATA = random.Random(1).randbytes(2 << 20)  # more than one read


@pytest.fixture
def relayed() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a relayed connection."""
    with ExitStack() as stack:
        near, inner = map(stack.enter_context, socket.socketpair())
        outer, far = map(stack.enter_context, socket.socketpair())
        for end in (near, far):
            end.settimeout(SECONDS)
        delayline.Direction(inner, outer, 0.01)
        delayline.Direction(outer, inner, 0.01)
        yield near, far


def received(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (got := end.recv(size - len(data))):
        data += got
    return data


def test_bytes_arrive_unchanged_both_ways(relayed: tuple[socket.socket, socket.socket]) -> None:
    for source, target in (relayed, relayed[::-1]):
        source.sendall(DATA)
        assert received(target, len(DATA)) == DATA


def test_an_end_is_passed_on_behind_the_bytes(relayed: tuple[socket.socket, socket.socket]) -> None:
    near, far = relayed
    near.sendall(b"last")
    near.close()
    assert received(far, 100) == b"last"


def test_bare_loops_have_a_figure_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bareloops, "SIZE", 4 * bareloops.PIECE)
    rates = bareloops.bare_loops(tmp_path / "new")
    assert list(rates) == ["write", "sendfile", "socket"]
    assert all(rate > 0 for rate in rates.values())
    assert not list((tmp_path / "new").iterdir())
    assert bareloops.told({"write": 1.234}).endswith("GB/s: write 1.23")


@pytest.mark.parametrize("arguments", [[], ["HEAD", "--row", "none"], ["HEAD", "--turns", "many"]])
def test_what_can_not_be_compared(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        against.main(arguments)
    assert ended.value.code == 2


def test_a_revision_that_is_none() -> None:
    with pytest.raises(SystemExit, match="no-such-revision is no revision of"):
        against._sources("no-such-revision")
    assert against._sources(against.PURE) == REPOSITORY


def test_revisions_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    against._compare("msgs/s", "abc", [[30.0, 10.0, 20.0], [10.0]], 0)
    assert capsys.readouterr().out == "  msgs/s: this 20 (10 – 30), abc 10, ratio 2.00\n"


def test_costs_of_both_brokers_are_kept_apart() -> None:
    first, second = {OURS: [1.0]}, {OURS: [2.0]}
    peers._note(first, second, OURS, [3.0, 4.0])
    assert (first, second) == ({OURS: [1.0, 3.0]}, {OURS: [2.0, 4.0]})


def test_a_topic_is_read_from_its_begin() -> None:
    reader = MagicMock()
    reader.option.return_value = reader
    kafkajob._options(reader, {"address": "h:1", "topic": "T"})
    asked = dict(call.args for call in reader.option.call_args_list)
    assert asked["subscribe"] == "T"
    assert asked["startingOffsets"] == "earliest"
