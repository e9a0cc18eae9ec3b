"""The twin in Python: what each part of the kernel does, and what runs where nothing is compiled.

The work itself is done by the codecs of `logcodec` and `wire`; here they have the kernel's interface.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hatwisted.kernel.appendrun import AppendRun
from hatwisted.kernel.heldputs import HeldPuts
from hatwisted.kernel.nextoffsets import NextOffsets
from hatwisted.kernel.queueends import QueueMap as QueueMap
from hatwisted.kernel.queueends import QueueTail as QueueTail
from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.logcodec.entrychoice import choose_entries, own_bytes
from hatwisted.logcodec.logwalk import WholeRecords
from hatwisted.logcodec.plaincolumns import CopySpans, PlainColumns, PlainPairs, SpanSums, SplitSpans
from hatwisted.wire import batch, layout
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.haframe import Buffer, FittingFrames, TakeFrames
from hatwisted.wire.remoting import encode_send_response

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "ItemLinker",
    "QueueTail",
    "RunEncoder",
    "SendAnswers",
    "SettledPuts",
    "UsualPuts",
    "check_signatures",
    "choose_entries",
    "copy_spans",
    "decode_batch",
    "fitting_frames",
    "own_bytes",
    "plain_columns",
    "plain_pairs",
    "signing_key",
    "span_crcs",
    "split_spans",
    "take_frames",
    "take_sends",
    "take_signed_sends",
    "usual_records",
]

take_sends = None
"""Takes the leading sends of a read: (data, position, commands, max_frame, max_header) -> position. The twin in
Python is the receiver itself, which reads every frame."""

take_signed_sends = None
"""The same of signed ones, each with the bytes that its signature covers; in Python, they are put together when
it is checked."""


class SigningKey(Protocol):
    """An account's secret, made ready for `CheckSignatures`: what HMAC hashes of it alone."""

    def __call__(self, secret: bytes) -> bytes: ...


class CheckSignatures(Protocol):
    """Lets leading sends in, and lets go of their texts.

    - requests, first: the requests, and the index of the first to look at
    - keys: account -> its key, made ready
    - granted: accounts, codes and topics, of which the one may send so to the other

    Returns the index of the first send that isn't let in: it isn't granted, it's wrongly signed, or it's
    unusual; or of one of the last few, which are no faster together than one by one. The caller looks at that
    one by itself.
    """

    def __call__(
        self,
        requests: Sequence[Any],
        first: int,
        keys: Mapping[str, bytes],
        granted: set[tuple[str | None, int, str]],
    ) -> int: ...


signing_key: SigningKey | None = None
check_signatures: CheckSignatures | None = None
"""In Python, each signature is checked by itself, by a library."""


class UsualPutsTwin(Protocol):
    """The puts of the usual among a read's sends.

    - pair: the property that every stored message gets, after all others
    - put_type: of all puts
    """

    def __init__(self, pair: bytes, put_type: type) -> None: ...

    def take(
        self, requests: Sequence[Any], first: int, known: dict[str, int], host: bytes, puts: list[Any]
    ) -> int:
        """Add the puts of the leading requests that are usual; the index of the first that isn't.

        - requests, first: the requests, and the index of the first to look at
        - known: number of queues of the topics that this read's sends may go to
        - host: of the producer, 8 or 20 bytes
        - puts: get more
        """


UsualPuts = None
"""In Python, that is Admission's work alone."""


class QueueRun(NamedTuple):
    """Records of a piece of log that follow one another in a queue.

    queue_offset, physical_offset: of the first; entries: the bytes of their queue entries.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    entries: bytes


class UsualRun(NamedTuple):
    """The usual records at the beginning of a piece of log.

    records: their number; size: bytes. runs: those that no queue has gathered. hashes (int32), physical,
    timestamps (int64, all in the machine's order): of their index items. stored, queued: store timestamp (ms) of
    the last, and of the last one in a queue. needed: the size of the next one, where it isn't all there, or 0.
    """

    records: int
    size: int
    runs: list[QueueRun]
    hashes: bytes
    physical: bytes
    timestamps: bytes
    stored: int
    queued: int
    needed: int


UsualRecords = Callable[[list[Buffer], int, bool, QueueMap, list[Any]], UsualRun | None]
"""(pieces of log, physical offset of the first byte, are messages indexed, queues, grown) -> None
if the first record isn't usual. Queues gather what they can; `grown` gets those that have."""

usual_records: UsualRecords | None = None
"""In Python, the dispatcher works it all out by columns."""

take_frames: TakeFrames | None = None
fitting_frames: FittingFrames | None = None
"""In Python, receiver and check of the HA link look at each frame themselves."""

whole_records: WholeRecords | None = None
"""In Python, the walk looks at all records by columns."""

plain_columns: PlainColumns | None = None
copy_spans: CopySpans | None = None
span_crcs: SpanSums | None = None
plain_pairs: PlainPairs | None = None
split_spans: SplitSpans | None = None
"""In Python, `logcodec.scan` makes the columns, and pyarrow copies."""


class ItemLinkerTwin(Protocol):
    """Makes the items of an index file, and links them into its chains.

    - slots_at: where the file's slots begin
    - slot_count: their number
    """

    def __init__(self, slots_at: int, slot_count: int) -> None: ...

    def link(
        self,
        pages: memoryview,
        first: int,
        begin: int,
        hashes: npt.NDArray[np.int32],
        physical: npt.NDArray[np.int64],
        timestamps: npt.NDArray[np.int64],
    ) -> tuple[bytes, bytes, bytes, int]:
        """The items' bytes, the slots that change (int64 in the machine's order), what they become (int32, big-
        endian), and how many of them were unused.

        - pages: the whole file
        - first: number of the first item
        - begin: ms from which the items' seconds are counted
        - hashes, physical, timestamps: of each
        """


ItemLinker: type[ItemLinkerTwin] | None = None
"""In Python, the index file links by columns."""

_ENDED = frozenset((b"", b"\x02"))
"""Last byte of properties to which others may be appended."""

_NO_FIELDS: dict[str, str] = {}

_TOPIC_FIELD = range(2, layout.MAX_TOPIC_LENGTH + 2)
"""Bytes that a topic's field may have, with its length byte."""


class RunEncoder(RecordEncoder):
    """Encodes puts for one broker.

    - store_host: 8 or 20 bytes (address, port as i32) that every record carries
    - put_type: of all puts
    - batch_size: bytes of a batch's records that break no limit if its properties don't; the compiled twin goes by
      it, as it knows of a packed batch how long they are
    """

    def __init__(self, store_host: bytes, put_type: type, batch_size: int = 0) -> None:
        super().__init__(store_host)
        self._put_type = put_type

    def encode_run(
        self,
        puts: Sequence[Any],
        first: int,
        run: AppendRun,
        timestamp: int,
        queue_offsets: NextOffsets,
        easy_size: int,
    ) -> int:
        """Add the records of puts to a run, and set the puts' offsets. Returns the index of the first put that
        needs more care, or their number: one of more than easy_size bytes, with an impossible topic, or
        without room.

        - puts, first: the puts, and the index of the first to encode
        - run: gets the records
        - timestamp: ms
        - queue_offsets: the next one of each queue; raised
        - easy_size: bytes of a put's records that break no limit
        """
        size_of, encode, parts, room_end = self.size, self.encode, run.parts, run.room_end
        for index in range(first, len(puts)):
            put = puts[index]
            field = self.topic_field(put.topic)
            size = size_of(put, field)
            if size > easy_size or len(field) not in _TOPIC_FIELD or run.at + size > room_end:
                return index
            if put.sys_flag & layout.SYS_UNQUEUED:
                queue_offset = -1
            else:
                queue_offset = queue_offsets.take(put.topic, put.queue_id, len(put.entries))
            encode(put, field, parts, run.at, timestamp, queue_offset)
            run.at = put.end
            run.puts.append(put)
        return len(puts)


def decode_batch(body: bytes) -> tuple[Collection[batch.BatchEntry], int]:
    """The messages of a batch, and how many of them have properties to which none can be appended without a
    separator. Raises CorruptBatch."""
    entries = batch.decode_batch(body)
    return entries, sum(own[-1:] not in _ENDED for _, _, own in entries)


class SendAnswers:
    """Encodes the answers to stored sends.

    - host_hex: the store's host as message ids have it
    - put_type: of all puts
    - ok: the status of those that are answered here
    """

    def __init__(self, host_hex: str, put_type: type, ok: object) -> None:
        self._host_hex = host_hex
        self._ok = ok

    def encode(self, puts: Sequence[Any], first: int) -> tuple[bytes, int]:
        """The frames that answer the puts from `first` on, and the index of the first put that they leave out:
        its status is another, its answer isn't JSON, or, for the compiled twin, has a number of more than 64 bits.
        One-way sends get none."""
        answers: list[bytes] = []
        for index in range(first, len(puts)):
            put = puts[index]
            request = put.token
            if put.status is not self._ok or request.binary:
                return b"".join(answers), index
            if not request.flag & FLAG_ONEWAY:
                ids = message_ids(self._host_hex, put)
                answers.append(
                    encode_send_response(request.opaque, put.answer_queue_id, put.queue_offset, ids)
                )
        return b"".join(answers), len(puts)


class SettledPuts:
    """What becomes of puts besides their answers.

    - put_type: of all puts
    - ok: the status of those that are stored as they were asked to be
    """

    def __init__(self, put_type: type, ok: object) -> None:
        self._ok = ok

    def hold(self, puts: Sequence[Any]) -> HeldPuts:
        """Stored sends that wait to be answered; of what only their append needed they let go: entries, and the
        bodies and texts of requests. A put may wait for seconds, among a hundred thousand others."""
        for put in puts:
            put.entries = ()
            request = put.token
            request.body = b""
            request.ext = _NO_FIELDS
        return HeldPuts(puts)

    def count(self, puts: Sequence[Any], first: int, topics: dict[str, array[int]]) -> tuple[int, int, int]:
        """Messages and bytes of the puts from `first` on, and the index of the first with another status.

        - puts, first: the puts, and the index of the first to count
        - topics: topic -> messages, bytes, puts, as numbers of 64 bits; raised
        """
        messages = size = 0
        for index in range(first, len(puts)):
            put = puts[index]
            if put.status is not self._ok:
                return messages, size, index
            its_messages, its_size = count_put(topics, put)
            messages += its_messages
            size += its_size
        return messages, size, len(puts)


def count_put(topics: dict[str, array[int]], put: Any) -> tuple[int, int]:
    """Messages and bytes of a stored put, which its topic's counts have now, too. topics: see `SettledPuts`."""
    counts = topics.get(put.topic)
    if counts is None:
        counts = topics[put.topic] = array("q", (0, 0, 0))
    messages, size = len(put.record_offsets), put.end - put.offset
    counts[0] += messages
    counts[1] += size
    counts[2] += 1
    return messages, size


def message_ids(host_hex: str, put: Any) -> str:
    """Offset message id of a put; a batch has those of all its messages, joined by commas."""
    if len(put.record_offsets) == 1:
        return f"{host_hex}{put.offset:016X}"
    offsets = put.record_offsets
    digits = struct.pack(f">{len(offsets)}q", *offsets).hex().upper()
    return host_hex + f",{host_hex}".join([digits[at : at + 16] for at in range(0, len(digits), 16)])
