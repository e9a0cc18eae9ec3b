"""Stores for the tests of audit and reindex: small logs, copies of them, and damage put at chosen bytes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from hatwisted.pipeline.decode.storefolder import LogFile
from hatwisted.pipeline.jobs.logbytes import StoreBytes
from hatwisted.wire.layout import file_name
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record

GOLDEN = Path(__file__).parents[1] / "golden" / "rocketmq-4.9.7"
GOLDEN_END = 111713
FILE_SIZE = 8192
TOPICS = ("Orders", "Events", "%RETRY%group", "Größen")
START_TIME = 1_700_000_000_000  # ms


def write_store(
    folder: Path, count: int, *, base: int = 0, file_size: int = FILE_SIZE, seed: int = 1
) -> list[Record]:
    """A log of `count` records of random topics, queues, bodies and keys from `base` (a file's start) on."""
    random_ = random.Random(seed)
    log = folder / "commitlog"
    log.mkdir(parents=True)
    queues: dict[tuple[str, int], int] = {}
    data, records = bytearray(), []
    for number in range(count):
        topic, queue_id = random_.choice(TOPICS), random_.randrange(3)
        index = queues.get((topic, queue_id), 0)
        record = make_record(
            topic,
            random_.randbytes(random_.choice((0, 1, 20, 300, 900))),
            raw_properties=b"UNIQ_KEY\x01u%08d\x02KEYS\x01k%d m%d\x02TAGS\x01t%d"
            % (number, number, number % 3, number % 5),
            queue_id=queue_id,
            queue_offset=index,
            store_timestamp=START_TIME + 10 * number,
        )
        room = file_size - len(data) % file_size
        if record.total_size + 8 > room:
            data += encode_blank(room) + bytes(room - 8)
        record = make_record(
            topic,
            record.body,
            raw_properties=record.raw_properties,
            queue_id=queue_id,
            queue_offset=index,
            store_timestamp=record.store_timestamp,
            physical_offset=base + len(data),
        )
        data += encode_record(record)
        queues[topic, queue_id] = index + 1
        records.append(record)
    save_log(folder, bytes(data), base=base, file_size=file_size)
    return records


def save_log(folder: Path, data: bytes, *, base: int = 0, file_size: int = FILE_SIZE) -> None:
    """The bytes of a log as files."""
    log = folder / "commitlog"
    log.mkdir(parents=True, exist_ok=True)
    for at in range(0, max(1, len(data)), file_size):
        (log / file_name(base + at)).write_bytes(data[at : at + file_size].ljust(file_size, b"\0"))


def copy_store(source: Path, target: Path) -> Path:
    """Another copy of a store's log."""
    return Path(shutil.copytree(source, target))


def log_files(folder: Path) -> list[LogFile]:
    """The files of a store's log."""
    paths = sorted((folder / "commitlog").iterdir())
    return [LogFile(int(path.name), str(path), path.stat().st_size) for path in paths]


def log_bytes(*folders: Path) -> Sequence[StoreBytes]:
    """Readers of the logs of these stores; close them."""
    return [StoreBytes(log_files(folder)) for folder in folders]


def end_of(records: Sequence[Record]) -> int:
    """Where a log of these ends."""
    return records[-1].physical_offset + records[-1].total_size


def patch(folder: Path, offset: int, data: bytes) -> None:
    """Put bytes over the log, within one file."""
    file = next(file for file in log_files(folder) if file.base <= offset < file.base + file.size)
    with open(file.path, "r+b") as opened:
        opened.seek(offset - file.base)
        opened.write(data)


def flip(folder: Path, offset: int) -> None:
    """Change one byte of the log."""
    file = next(file for file in log_files(folder) if file.base <= offset < file.base + file.size)
    with open(file.path, "r+b") as opened:
        opened.seek(offset - file.base)
        byte = opened.read(1)[0]
        opened.seek(offset - file.base)
        opened.write(bytes([byte ^ 0x5A]))


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of every file in a folder, by relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
