"""Files of messages: NDJSON, CSV and Parquet, as written by `export` or by hand.

A row has the columns of a log's table, or the names that a message has as JSON (`clientcore.messagejson`: lines of
`consume`, `msg get` and `log dump` are such rows); all but a body may be missing. In the text formats a body that
isn't UTF-8 (in CSV also one with NUL or CR, which CSV readers mangle) is in `body64` as base64 instead of `body`,
and CSV has `keys` and `properties` as JSON. `tags`, `keys` and `unique_key` are properties, too: where
`properties` has them, those take precedence.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import IO, Annotated, Any, Final, Protocol

import msgspec

from hatwisted.clientcore.messagejson import body_of
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.borntimes import parse_born
from hatwisted.wire import layout

FORMATS: Final = ("ndjson", "csv", "parquet")
SUFFIXES: Final = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".parquet": "parquet",
}
LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes: more than any broker takes as one message, so only a foreign file has such a line."""
PARQUET_ROWS: Final = 4096
"""Rows held at once."""
_UNREADABLE: Final = (EOFError, OSError, zlib.error)
"""What a packed file that breaks off, or is damaged, ends in."""
Number = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""Of 32 bits, as records have them."""
QueueId = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


class BadMessageFile(PipelineError):
    """A file of messages can't be read; the message names file and row."""


class MessageRow(msgspec.Struct, kw_only=True):
    """A message as a file has it; the import adds what is missing.

    text: a `body` in NDJSON and CSV; raw: one in Parquet. born_timestamp: ISO 8601, or ms since the epoch. What
    JSON calls otherwise than tables do is moved to the table's name.
    """

    text: str | None = msgspec.field(name="body", default=None)
    raw: bytes | None = msgspec.field(name="(raw)", default=None)
    body64: str | None = None
    topic: str | None = None
    broker: str | None = None
    queue_id: QueueId | None = None
    tags: str | None = None
    keys: list[str] | str | None = None
    unique_key: str | None = None
    properties: dict[str, str] | None = None
    flag: Number = 0
    reconsume_times: Number = 0
    born_timestamp: int | str | None = None
    queueId: QueueId | None = None
    reconsumeTimes: Number | None = None
    bornTimestamp: int | str | None = None
    messageId: str | None = None
    offsetMessageId: str | None = None
    sysFlag: Number | None = None
    compression: str | None = None

    def __post_init__(self) -> None:
        if self.queueId is not None:
            self.queue_id = self.queueId
        if self.reconsumeTimes is not None:
            self.reconsume_times = self.reconsumeTimes
        if self.bornTimestamp is not None:
            self.born_timestamp = self.bornTimestamp
        # Without a producer's id a message is called by its place, which isn't a property of it.
        if self.messageId and self.messageId != self.offsetMessageId:
            self.unique_key = self.messageId
        # Whatever a file says is read with its row, so that the error names the row.
        if self.born_timestamp is not None:
            self.born_timestamp = parse_born(self.born_timestamp)

    @property
    def born(self) -> int | None:
        """Time of birth, in ms."""
        assert not isinstance(self.born_timestamp, str), "it was read with the row"
        return self.born_timestamp

    @property
    def content(self) -> bytes:
        """The body. ValueError if it isn't base64 where it should be, or missing."""
        if self.body64:
            return body_of(self.body64, self.compression, self.sysFlag or 0)
        if self.raw is not None:
            return self.raw
        if self.text is None and self.body64 is None:
            raise ValueError("neither body nor body64")
        return (self.text or "").encode()

    @property
    def all_properties(self) -> dict[str, str]:
        """With tags, keys and unique key."""
        found = dict(self.properties or {})
        keys = self.keys.split() if isinstance(self.keys, str) else self.keys
        for name, value in (
            (layout.PROPERTY_TAGS, self.tags),
            (layout.PROPERTY_KEYS, layout.KEY_SEPARATOR.join(keys or ())),
            (layout.PROPERTY_UNIQ_KEY, self.unique_key),
        ):
            if value and name not in found:
                found[name] = value
        return found


class MessageFile(Protocol):
    """Rows of one file. `place`: of the last row, for errors; `position`: bytes of the file read so far."""

    place: str
    position: int

    def rows(self) -> Iterator[MessageRow]:
        """All, in order. BadMessageFile at the first that can't be read."""


_FIELDS: Final = frozenset(MessageRow.__struct_encode_fields__)


_decode_line = msgspec.json.Decoder(MessageRow).decode
_decode_keys = msgspec.json.Decoder(list[str]).decode
_decode_properties = msgspec.json.Decoder(dict[str, str]).decode


class NdjsonFile:
    """One object a line; empty lines are ignored."""

    def __init__(self, path: str) -> None:
        self.place = path
        self.position = 0
        self._path = path

    def rows(self) -> Iterator[MessageRow]:
        with open(self._path, "rb") as raw, _unpacked(self._path, raw) as lines:
            for number in count(1):
                self.place = f"{self._path} line {number}"
                try:
                    line = lines.readline(LONGEST_LINE)
                except _UNREADABLE as error:
                    raise BadMessageFile(f"{self.place}: can't be read: {error}") from None
                self.position = raw.tell()
                if not line:
                    return
                if number == 1:
                    line = line.removeprefix(BOM_UTF8)
                if not line.strip():
                    continue
                try:
                    yield _decode_line(line)
                except msgspec.MsgspecError as error:
                    raise BadMessageFile(f"{self.place}: {error}") from None


class CsvFile:
    """RFC 4180, with a header line."""

    def __init__(self, path: str) -> None:
        self.place = path
        self.position = 0
        self._path = path

    def rows(self) -> Iterator[MessageRow]:
        csv.field_size_limit(min(sys.maxsize, LONGEST_LINE))
        with open(self._path, "rb") as raw, _unpacked(self._path, raw) as data:
            reader = csv.DictReader(io.TextIOWrapper(data, encoding="utf-8-sig", newline=""), strict=True)
            try:
                if not {"body", "body64"} & set(reader.fieldnames or ()):
                    raise BadMessageFile(f"{self._path}: its first line names no column body or body64")
                for fields in reader:
                    self.place, self.position = f"{self._path} line {reader.line_num}", raw.tell()
                    yield _csv_row(fields)
            except (csv.Error, ValueError) as error:
                raise BadMessageFile(f"{self._path} line {reader.line_num}: {error}") from None
            except _UNREADABLE as error:
                raise BadMessageFile(f"{self._path} line {reader.line_num}: can't be read: {error}") from None


def _csv_row(fields: Mapping[str, str]) -> MessageRow:
    """A row; ValueError (msgspec's errors are) if it isn't one."""
    found: dict[str, Any] = {name: value for name, value in fields.items() if name in _FIELDS and value}
    if found.get("keys", "").startswith("["):
        found["keys"] = _decode_keys(found["keys"])
    if "properties" in found:
        found["properties"] = _decode_properties(found["properties"])
    # An empty body is a body, while other empty fields aren't there.
    if "body64" not in found:
        found.setdefault("body", "")
    return msgspec.convert(found, MessageRow, strict=False)


class ParquetFile:
    """As `export` writes it, or a landed table's file."""

    def __init__(self, path: str) -> None:
        self.place = path
        self.position = 0
        self._path = path

    def rows(self) -> Iterator[MessageRow]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self._path) as file:
                yield from self._rows_of(file)
        except (pa.ArrowException, OSError) as error:
            raise BadMessageFile(f"{self._path}: {str(error).splitlines()[0]}") from None

    def _rows_of(self, file: Any) -> Iterator[MessageRow]:
        names = [name for name in file.schema_arrow.names if name in _FIELDS]
        if "body" not in names and "body64" not in names:
            raise BadMessageFile(f"{self._path}: has no column body")
        size, number = os.stat(self._path).st_size, 0
        for batch in file.iter_batches(PARQUET_ROWS, columns=names):
            for values in _exact_times(batch).to_pylist():
                number += 1
                self.place = f"{self._path} row {number}"
                self.position = size * number // max(1, file.metadata.num_rows)
                yield self._row(values)

    def _row(self, values: dict[str, Any]) -> MessageRow:
        found = {name: value for name, value in values.items() if value is not None}
        if "properties" in found:
            found["properties"] = dict(found["properties"])
        if isinstance(found.get("body"), bytes):
            found["(raw)"] = found.pop("body")
        try:
            return msgspec.convert(found, MessageRow)
        except msgspec.ValidationError as error:
            raise BadMessageFile(f"{self.place}: {error}") from None


def _exact_times(batch: Any) -> Any:
    """Times as ms since the epoch: Python's own end with the year 9999. One without a zone is meant as UTC."""
    import pyarrow as pa

    for number, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            micros = batch.column(number).cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
            exact = [None if each is None else each // 1000 for each in micros]
            batch = batch.set_column(number, field.name, pa.array(exact, pa.int64()))
    return batch


_READERS: Final[dict[str, type[NdjsonFile] | type[CsvFile] | type[ParquetFile]]] = {
    "ndjson": NdjsonFile,
    "csv": CsvFile,
    "parquet": ParquetFile,
}


def format_of(path: str) -> str | None:
    """By the name's suffix (ignoring .gz); None if that doesn't tell."""
    stem = path.removesuffix(".gz")
    return SUFFIXES.get(os.path.splitext(stem)[1].lower())


def open_message_file(path: str, form: str | None = None) -> MessageFile:
    """A file's rows; form: one of FORMATS, by the name's end if None."""
    found = form or format_of(path)
    if found is None:
        raise BadMessageFile(f"{path}: its name doesn't end in {', '.join(SUFFIXES)}: give its format")
    return _READERS[found](path)


def find_message_files(paths: Sequence[str], form: str | None = None) -> list[str]:
    """The files, those of a folder by name, which is the order they were written in. BadMessageFile for a folder
    that has none, or that an export didn't finish."""
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise BadMessageFile(f"{path}: there's no such file")
            found.append(path)
            continue
        names = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
        if os.path.exists(os.path.join(path, "_temporary")):
            raise BadMessageFile(
                f"{path}: an export was interrupted here, or is still running; export it again"
            )
        inside = [os.path.join(path, name) for name in names if format_of(name) or form]
        if not inside:
            raise BadMessageFile(f"{path}: has no files of messages ({', '.join(SUFFIXES)})")
        found += inside
    return found


def _unpacked(path: str, raw: IO[bytes]) -> IO[bytes]:
    return gzip.open(raw) if path.endswith(".gz") else raw  # type: ignore[return-value]
