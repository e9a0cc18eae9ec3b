"""Both twins of the kernel, whichever of them the process uses, and what ordinary ways make of the same bytes."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from hatwisted.kernel import pure
from hatwisted.kernel.choice import NAMES, compiled_parts
from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.logwalk import LogWalk, WalkOptions
from hatwisted.logcodec.queueruns import queue_entries, queue_rows
from hatwisted.logcodec.scan import gather, walk
from hatwisted.logcodec.window import LogBytes
from hatwisted.wire import layout
from hatwisted.wire.haframe import FrameReceiver, HaProtocolError
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    SignedSendCommand,
)
from hatwisted.wire.signing import signed_bytes

PARTS: dict[str, ModuleType] = compiled_parts()
NOT_BUILT = "" if PARTS else "the compiled twin isn't built here"


def compiled() -> SimpleNamespace:
    """The compiled twin; only where it is built."""
    (
        requests,
        signed,
        signatures,
        admission,
        records,
        answers,
        puts,
        dispatch,
        index,
        walk,
        reading,
        columns,
        frames,
    ) = (PARTS[name] for name in NAMES)
    return SimpleNamespace(
        RunEncoder=records.RunEncoder,
        decode_batch=records.decode_batch,
        take_sends=requests.take_sends,
        take_signed_sends=signed.take_signed_sends,
        signing_key=signatures.signing_key if signatures.USABLE else None,
        check_signatures=signatures.check_signatures if signatures.USABLE else None,
        UsualPuts=admission.UsualPuts,
        SendAnswers=answers.SendAnswers,
        SettledPuts=puts.SettledPuts,
        QueueTail=dispatch.QueueTail,
        QueueMap=dispatch.QueueMap,
        usual_records=dispatch.usual_records,
        ItemLinker=index.ItemLinker,
        whole_records=walk.whole_records,
        choose_entries=reading.choose_entries,
        own_bytes=reading.own_bytes,
        plain_columns=columns.plain_columns,
        copy_spans=columns.copy_spans,
        span_crcs=columns.span_crcs if columns.SUMS else None,
        plain_pairs=columns.plain_pairs,
        split_spans=columns.split_spans,
        take_frames=frames.take_frames,
        fitting_frames=frames.fitting_frames,
    )


def twins() -> list[ModuleType | SimpleNamespace]:
    """Those that are there: Python's first."""
    return [pure, compiled()] if PARTS else [pure]


def received(data: bytes, take: Any = None) -> tuple[list[RemotingCommand], int] | str:
    """Commands and bytes held of a read, or why the connection ends; take: the quicker way for sends."""
    receiver = RemotingReceiver(typed_sends=True, take_sends=take)
    try:
        return receiver.receive(data), receiver.buffered
    except RemotingProtocolError as error:
        return str(error)


def received_signed(data: bytes, take: Any = None) -> tuple[list[RemotingCommand], int] | str:
    """The same where sends are signed. What the quicker way says that signatures cover is compared with what the
    requests' texts say, and then forgotten."""
    receiver = RemotingReceiver(signed_sends=True, take_sends=take)
    try:
        commands = receiver.receive(data)
    except RemotingProtocolError as error:
        return str(error)
    for command in commands:
        if isinstance(command, SignedSendCommand) and command.signed:
            assert command.signed == signed_bytes(command.with_texts().ext, command.body)
            command.signed = b""
    return commands, receiver.buffered


def frames_of_reads(reads: list[bytes], take: Any = None) -> tuple[list[Any], int, Any]:
    """Frames of the HA link, bytes held and the header of the last one, of reads one after another; why it ends
    comes last of the frames. take: the quicker way for whole ones."""
    receiver, found = FrameReceiver(take_frames=take), list[Any]()
    for read in reads:
        try:
            found += [(frame.offset, bytes(frame.body)) for frame in receiver.receive(read)]
        except HaProtocolError as error:
            return [*found, str(error)], 0, None
    return found, receiver.buffered, receiver.pending_header


def by_columns(data: bytes, base: int, keys: bool) -> tuple[Any, ...]:
    """What the ordinary way makes of a piece of log.

    - data: the piece
    - base: physical offset of its first byte
    - keys: with the items of the index?
    """
    positions, end = walk(data)
    scan = gather(data, base, positions, end)
    columns = dispatch_columns(scan, [1000], keys=keys)
    rows, runs = queue_rows(scan)
    blob = queue_entries(scan, rows, columns.tags_codes).tobytes()
    size = layout.QUEUE_ENTRY_SIZE
    found = [
        (*queue, run.first, run.begin, blob[start * size : (start + run.count) * size])
        for queue, start, run in runs
    ]
    items = columns.item_rows
    return (
        len(scan),
        scan.end.position,
        sorted(found),
        columns.item_hashes.tolist(),
        scan.physical_offsets[items].tolist(),
        scan.store_timestamps[items].tolist(),
    )


def told(found: Any) -> tuple[Any, ...]:
    """The same of what the compiled twin has found."""
    return (
        found.records,
        found.size,
        sorted(tuple(run) for run in found.runs),
        np.frombuffer(found.hashes, np.int32).tolist(),
        np.frombuffer(found.physical, np.int64).tolist(),
        np.frombuffer(found.timestamps, np.int64).tolist(),
    )


def walked(log: LogBytes, whole: Any) -> tuple[Any, ...]:
    """What a walk to the end of a log finds.

    - log: from offset 0 on
    - whole: the quicker way over plain records; None: there's none
    """
    walk = LogWalk(log, 0, options=WalkOptions(read_size=1000, whole_records=whole))
    end = walk.to_end()
    return end, walk.at, walk.count, walk.last_timestamp, walk.damages, walk.written, walk.torn_record
