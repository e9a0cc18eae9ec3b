"""What was captured from RocketMQ 4.9.7: the stores of a master and its slave, their link, answers, filters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import END, NEED_DATA, Blank, Record

SQL92 = Path(__file__).parents[1] / "golden" / "sql92"
GOLDEN = SQL92.with_name("rocketmq-4.9.7")
MASTER, SLAVE = GOLDEN / "master", GOLDEN / "slave"
GOLDEN_END = 111713
"""Where both logs end."""


def log_files() -> list[Path]:
    """Master's and slave's log files."""
    return sorted(GOLDEN.glob("*/commitlog/*"))


def log_bytes(side: str = "master") -> bytes:
    """One side's log, with the zeros of its last file."""
    return b"".join(path.read_bytes() for path in log_files() if path.parts[-3] == side)


def records(side: str = "master") -> list[Record]:
    """One side's, in log order, by the server's own codec."""
    return [found for *_, found in places(side) if isinstance(found, Record)]


def places(side: str = "*") -> Iterator[tuple[bytes, int, int, Record | Blank]]:
    """(file content, position, physical offset, what lies there) for all written bytes of one log or
    both."""
    for path in sorted(GOLDEN.glob(f"{side}/commitlog/*")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            physical = int(path.name) + position
            found = decode_record(data, position, at=physical)
            if found is END:
                break
            assert found is not NEED_DATA
            yield data, position, physical, found
            position += found.total_size


def config_files() -> list[Path]:
    """All JSON files of both stores."""
    return sorted(GOLDEN.glob("*/config/*.json"))


def link_events() -> list[tuple[str, bytes]]:
    """(direction, bytes) of the captured HA link, in order of time."""
    lines = (GOLDEN / "ha-wire.jsonl").read_text().splitlines()
    return [(event["dir"], bytes.fromhex(event["hex"])) for event in map(json.loads, lines)]


def answers() -> dict[str, dict[str, Any]]:
    """Captured remoting answers: name -> {"header": ..., "body": text}."""
    loaded: dict[str, dict[str, Any]] = json.loads((GOLDEN / "remoting-answers.json").read_text())
    return loaded
