"""What can go wrong in a store, one class per outcome that callers treat differently.

A torn tail is no error (recovery cuts it and reports it); damage, a full disk and a foreign file are. Every
message is one line that names the file or offset and what to do next, because an operator reads it.
"""

from __future__ import annotations


class StoreError(Exception):
    """The store can't do what was asked; `str()` is one line for the operator."""


class StoreLocked(StoreError):
    """Another process (or another store object of this one) owns the folder."""


class WrongFile(StoreError):
    """A file that has no place in a store: wrong length, wrong name, a gap in the sequence."""


class StoreFull(StoreError):
    """No room: ENOSPC or a disk watermark. Nothing was written; try again when space returns."""


class WrongEntry(StoreError):
    """A queue's entry names a place in the log where its record isn't.

    index: the queue offset; physical: the place that the entry names.
    """

    def __init__(self, topic: str, queue_id: int, index: int, physical: int) -> None:
        """A queue entry whose place in the log doesn't hold its message.

        - topic: of the queue
        - queue_id: of the queue
        - index: queue offset of the entry
        - physical: the log offset it names
        """
        super().__init__(
            f"consume queue {topic}/{queue_id}: the entry of offset {index} names {physical}, where the log "
            "doesn't have that message; stop the broker and move the queue's folder away: the next start "
            "rebuilds it from the log"
        )
        self.index = index
        self.physical = physical


class OffsetGap(StoreError):
    """Raw bytes were offered for another position than the log's end."""

    def __init__(self, offered: int, expected: int) -> None:
        super().__init__(f"bytes offered at offset {offered}, the log ends at {expected}")
        self.offered = offered
        self.expected = expected


class OutsideLog(StoreError):
    """Bytes were asked for that the log doesn't hold: they have expired, or aren't written yet."""

    def __init__(self, offset: int, begin: int, end: int) -> None:
        """The log doesn't hold what was asked for.

        - offset: asked for
        - begin, end: what the log holds
        """
        super().__init__(f"offset {offset} isn't in the log, which holds {begin} to {end}")
        self.expired = offset < begin


class OtherFileSize(StoreError):
    """A log that was written in smaller files: one ends inside of ours, and the next continues after it.

    file_end: where that file ends; file_size: bytes of ours.
    """

    def __init__(self, file_end: int, file_size: int) -> None:
        super().__init__(
            f"the log's files are smaller than ours of {file_size} bytes, one ends at offset {file_end}: set "
            "mappedFileSizeCommitLog as where it was written (on a slave: as on the master), and start with an "
            "empty store"
        )


class NoRecord(StoreError):
    """Dispatch met bytes in the middle of the log that are no record.

    - offset: where
    - reason: what is wrong there
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(
            f"dispatch stopped at commit log offset {offset}: {reason}; "
            "messages after it are not in queues or index; see 'hatwisted log check'"
        )
        self.offset = offset
        self.reason = reason


class DamagedLog(StoreError):
    """Valid records follow bytes that aren't.

    - offset: where the damage begins
    - resumes_at: offset of the next valid record
    - end: the log's end
    - reason: what is wrong there
    - path: of the file
    """

    follows = "valid records resume at {}"

    def __init__(self, offset: int, resumes_at: int, end: int, reason: str, path: str) -> None:
        super().__init__(
            f"commit log damaged at offset {offset} ({reason}) in {path}; {self.follows.format(resumes_at)}, "
            f"{end - offset} bytes at stake; they are as they were, see 'hatwisted log repair'"
        )
        self.offset = offset
        self.resumes_at = resumes_at
        self.end = end
        self.reason = reason
        self.path = path


class DamagedEnd(DamagedLog):
    """What breaks off at the log's end was whole when the store was closed.

    resumes_at: where the log ended then.
    """

    follows = "up to {} it was on the disk when the store was closed"
