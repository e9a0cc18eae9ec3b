"""Landed tables as somebody else sees them: the logs by a decoder that shares no line with the one that lands,
Delta's log by another reader than the one that writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from hatwisted.pipeline.delta.deadletters import dead_letter_table
from testbed.storefiles import read_log
from tests.support import growing

DELTA, ICEBERG = "delta", "iceberg"
TIME = pa.timestamp("us", tz="UTC")
LONGEST = (1 << 63) // 1000  # ms that fit into it
TRANSACTIONS = ("none", "prepared", "commit", "rollback")
ROWS = pa.schema(
    [
        *(("broker", pa.string()), ("physical_offset", pa.int64()), ("size", pa.int32())),
        *(("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64())),
        *(("body", pa.binary()), ("tags", pa.string()), ("unique_key", pa.string())),
        *(("keys", pa.list_(pa.string())), ("store_date", pa.string())),
        *(("store_timestamp", TIME), ("born_timestamp", TIME)),
        *(("store_host", pa.string()), ("born_host", pa.string()), ("flag", pa.int32())),
        *(("sys_flag", pa.int32()), ("reconsume_times", pa.int32()), ("transaction", pa.string())),
        *(("prepared_transaction_offset", pa.int64()), ("body_crc", pa.int32())),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)
"""What is compared: all columns but `file`, which is where a record lay, and `body_crc_ok`."""
UNREADABLE = (OSError, pa.ArrowException)
"""What the read of a table raises that lacks a file, or has one that isn't whole."""
LETTER = ["broker", "physical_offset", "topic", "body"]
"""The same of dead letters."""
MESSAGES = "messages"
LETTERS = dead_letter_table(MESSAGES)


class LandedTable:
    """A table, and what is wrong with it.

    - folder: the stores' folders, each a GrowingStore called like its broker; of Iceberg tables the catalog, too
    - brokers: those that are landed
    - typed: a topic with a schema that none of its bodies fits
    - home: address under which its files lie, at an object store; None: in the folder
    - outlived: may parts of a killed landing go on after the next one's look for what it left?
    """

    def __init__(
        self,
        folder: Path,
        brokers: Sequence[str],
        typed: str | None = None,
        home: str | None = None,
        outlived: bool = True,
    ) -> None:
        self.folder = folder
        self.home = home
        self._outlived = outlived
        self.brokers = brokers
        self._typed = typed
        self._decoded: list[pa.Table] = []
        self._deleted: list[tuple[str, int, int]] = []

    @property
    def name(self) -> str:
        """As a landing takes it."""
        raise NotImplementedError

    @property
    def place(self) -> Path:
        """The folder that it's in, if it isn't at an object store."""
        raise NotImplementedError

    def commits(self) -> Iterable[Path]:
        """The files that make a version of it."""
        raise NotImplementedError

    def version(self) -> int:
        """A number that rises with every change; -1: it isn't there."""
        raise NotImplementedError

    def logs(self) -> pa.Table:
        """The rows that there should be, as far as the logs go now."""
        for broker in self.brokers:
            known = sum(piece["broker"][0].as_py() == broker and len(piece) for piece in self._decoded)
            if new := list(_rows(broker, self.folder / broker, known)):
                self._decoded.append(pa.Table.from_pylist(new, ROWS))
        return pa.concat_tables(self._decoded)

    def trouble(self, whole: bool) -> str | None:
        """What is wrong with it, or the one beside. whole: it should have all of the logs, and no other files."""
        try:
            found = self._read()
            letters = None if self._typed is None else self._read(beside=True)
        except UNREADABLE as error:
            return f"can't be read: {error}"
        expected = self.logs()
        for broker, first, last in self._deleted:
            expected = expected.filter(pc.invert(self._removable(expected, broker, first, last)))
        for broker in self.brokers:
            rows, wanted = _of(found, broker), _of(expected, broker)
            if not rows.equals(wanted.slice(0, len(rows))):
                pairs = zip_longest(rows.to_pylist(), wanted.to_pylist())
                at = next(number for number, (one, other) in enumerate(pairs) if one != other)
                return f"{broker}: row {at} of {len(rows)} is {rows.slice(at, 1).to_pylist()}"
            if whole and len(rows) < len(wanted):
                return f"{broker}: {len(rows)} rows of {len(wanted)}"
        if letters is not None and (wrong := self._dead_letters(found, letters, whole)):
            return wrong
        return self.left_over() if whole else None

    def delete_last(self, broker: str, count: int) -> None:
        """As a user does: so many rows of a broker that the table has last. No landing is to bring them again.
        Nothing is deleted of one that can't be read, which the next look for trouble tells."""
        try:
            found = self._read()
        except UNREADABLE:
            return
        offsets = found.filter(pc.field("broker") == broker)["physical_offset"].to_pylist()
        if last := sorted(offsets)[-count:]:
            self._delete(f"broker = '{broker}' AND physical_offset >= {last[0]} AND topic <> '{self._typed}'")
            self._deleted.append((broker, last[0], last[-1]))

    def _removable(self, rows: pa.Table, broker: str, first: int, last: int) -> pa.ChunkedArray:
        """Which rows a deletion takes; those with dead letters beside stay."""
        offsets, others = rows["physical_offset"], pc.not_equal(rows["topic"], self._typed or "")
        between = pc.and_(pc.greater_equal(offsets, first), pc.less_equal(offsets, last))
        return pc.and_(pc.and_(pc.equal(rows["broker"], broker), between), others)

    def _delete(self, where: str) -> None:
        """What a condition in SQL says."""
        raise NotImplementedError

    def _dead_letters(self, found: pa.Table, letters: pa.Table, whole: bool) -> str | None:
        """What is wrong with the table beside.

        - found: the table's rows
        - letters: its own
        - whole: they should all be there
        """
        for broker in self.brokers:
            typed = found.filter(pc.equal(found["topic"], self._typed))
            dead, wanted = (_of(rows, broker).select(LETTER) for rows in (letters, typed))
            if not dead.equals(wanted if whole else wanted.slice(0, len(dead))):
                return f"{broker}: {len(dead)} dead letters of {len(wanted)}"
        return None

    def _read(self, beside: bool = False) -> pa.Table:
        """The table's rows, as ROWS, or the dead letters' with null in what they lack."""
        raise NotImplementedError

    def offsets(self) -> list[int]:
        """Of all rows, in order."""
        found: list[int] = self._read()["physical_offset"].to_pylist()
        return sorted(found)

    def left_over(self) -> str | None:
        """A file that nothing mentions."""
        raise NotImplementedError


class LandedDelta(LandedTable):
    @property
    def name(self) -> str:
        return str(self.place) if self.home is None else f"{self.home}/table"

    @property
    def place(self) -> Path:
        return self.folder / "table"

    def commits(self) -> Iterable[Path]:
        return self.place.glob("_delta_log/[0-9]*.json")

    def version(self) -> int:
        commits = (Path(path).stem for path in paths(self.name, "_delta_log") if path.endswith(".json"))
        return max((int(commit) for commit in commits if commit.isdigit()), default=-1)

    def _read(self, beside: bool = False) -> pa.Table:
        found, table = [ROWS.empty_table()], dead_letter_table(self.name) if beside else self.name
        files, root = fs.FileSystem.from_uri(table)
        for add in self._active(table).values():
            with files.open_input_file(f"{root}/{unquote(add['path'])}") as file:
                rows = pq.ParquetFile(file).read()
            stats, offsets = json.loads(add["stats"]), rows["physical_offset"].to_pylist()
            told = (stats["numRecords"], stats["maxValues"]["physical_offset"])
            if told != (len(offsets), max(offsets)):
                raise OSError(f"{add['path']} has other rows than its statistics say: {told}")
            for name, value in add["partitionValues"].items():
                rows = rows.append_column(name, pa.array([value] * len(rows), pa.string()))
            found.append(_as_rows(rows))
        return pa.concat_tables(found)

    def _delete(self, where: str) -> None:
        DeltaTable(self.name).delete(where)

    def _actions(self, table: str) -> Iterator[dict[str, Any]]:
        files, _ = fs.FileSystem.from_uri(table)
        for commit in sorted(path for path in paths(table, "_delta_log") if path.endswith(".json")):
            with files.open_input_file(commit) as file:
                yield from map(json.loads, file.read().splitlines())

    def _active(self, table: str) -> dict[str, dict[str, Any]]:
        """Delta's log as its specification has it: what was added and not removed."""
        found = {}
        for action in self._actions(table):
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                found.pop(action["remove"]["path"], None)
        return found

    def left_over(self) -> str | None:
        for table in (self.name, dead_letter_table(self.name)):
            mentioned = {
                Path(unquote(action[kind]["path"])).name
                for action in self._actions(table)
                for kind in ("add", "remove")
                if kind in action
            }
            left = {path.rpartition("/")[2] for path in paths(table) if "/topic=" in path} - mentioned
            if left:
                return f"no version has {sorted(left)}"
        return None


class LandedIceberg(LandedTable):
    @property
    def name(self) -> str:
        return f"iceberg:lake.rocketmq.{MESSAGES}"

    @property
    def place(self) -> Path:
        return self.folder / "warehouse" / "rocketmq" / MESSAGES

    def commits(self) -> Iterable[Path]:
        return self.place.glob("metadata/*.metadata.json")

    def version(self) -> int:
        try:
            return int(self._table(MESSAGES).metadata.last_sequence_number)
        except NoSuchTableError:
            return -1

    def _table(self, name: str) -> Any:
        return load_catalog("lake").load_table(("rocketmq", name))

    def _read(self, beside: bool = False) -> pa.Table:
        return _as_rows(self._table(LETTERS if beside else MESSAGES).scan().to_arrow())

    def _delete(self, where: str) -> None:
        self._table(MESSAGES).delete(where)

    def left_over(self) -> str | None:
        """A file of the last two runs, and of another one if its successor has come to commit: it had removed
        what it found before it wrote. What was left by those whose successors were killed earlier may stay."""
        notes = [snapshot.summary.additional_properties for snapshot in self._table(MESSAGES).snapshots()]
        claims = [note["hatwisted.claim"] for note in notes if "hatwisted.claim" in note]
        committed = {note["hatwisted.written"].split()[0] for note in notes if "hatwisted.written" in note}
        ended = {*claims[-2:]}
        if not self._outlived:
            ended |= {run for run, following in pairwise(claims) if following in committed}
        mentioned = set[str]()
        for table in map(self._table, (MESSAGES, LETTERS) if self._typed else (MESSAGES,)):
            lists = (snapshot.manifests(table.io) for snapshot in table.snapshots())
            manifests = {manifest.manifest_path: manifest for each in lists for manifest in each}
            for manifest in manifests.values():
                entries = manifest.fetch_manifest_entry(table.io)
                mentioned |= {entry.data_file.file_path for entry in entries}
        before = "file://" if self.home is None else "s3://"
        for path in paths(self.home or str(self.folder / "warehouse")):
            if "/data/" in path and before + path not in mentioned:
                name = path.rpartition("/")[2]
                run = "".join(name.partition(".")[0].split("-")[-5:])[:12]
                if run in ended:
                    return f"no snapshot has {name}"
        return None


def paths(address: str, *below: str) -> list[str]:
    """Of all files there, as the file system of the address has them."""
    files, root = fs.FileSystem.from_uri(address)
    selector = fs.FileSelector("/".join((root, *below)), recursive=True, allow_not_found=True)
    return [item.path for item in files.get_file_info(selector) if item.is_file]


def _as_rows(found: pa.Table) -> pa.Table:
    """As ROWS, with null in what isn't there."""
    columns = [found[name] if name in found.column_names else pa.nulls(len(found)) for name in ROWS.names]
    return pa.table(columns, ROWS.names).cast(ROWS)


def _of(rows: pa.Table, broker: str) -> pa.Table:
    """A broker's, in the order of its log."""
    return rows.filter(pc.equal(rows["broker"], broker)).sort_by("physical_offset")


def _rows(broker: str, store: Path, known: int) -> Iterator[dict[str, Any]]:
    """Of all records but the first ones, which are known."""
    for number, message in islice(enumerate(read_log(store)), known, None):
        stored = datetime.fromtimestamp((growing.FIRST_TIME + growing.STEP * number) / 1000, UTC)
        keys = message.property("KEYS")
        yield {
            "broker": broker,
            "physical_offset": message.offset,
            "size": message.size,
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "body": message.body,
            "tags": message.property("TAGS"),
            "unique_key": message.property("UNIQ_KEY"),
            "keys": keys.split() if keys else [],
            "store_date": stored.date().isoformat(),
            "store_timestamp": message.store_timestamp * 1000,
            "born_timestamp": _micros(message.born_timestamp),
            "store_host": message.store_host,
            "born_host": message.born_host,
            "flag": message.flag,
            "sys_flag": message.sys_flag,
            "reconsume_times": message.reconsume_times,
            "transaction": TRANSACTIONS[message.sys_flag >> 2 & 3],
            "prepared_transaction_offset": message.prepared_transaction_offset,
            "body_crc": message.body_crc,
            "properties": list(message.all_properties().items()),
        }


def _micros(milliseconds: int) -> int | None:
    """A time as a column has it; null where it can't."""
    return milliseconds * 1000 if -LONGEST < milliseconds < LONGEST else None


KINDS = {DELTA: LandedDelta, ICEBERG: LandedIceberg}
