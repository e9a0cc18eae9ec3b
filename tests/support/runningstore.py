"""The store of a running broker, as the promises of the simulation see it: queues through its port, as a consumer
reads them, and the log in its files."""

from __future__ import annotations

from bisect import bisect_right
from itertools import takewhile
from pathlib import Path

from hatwisted.sim.history import Place, Seen
from testbed.remotingclient import RemotingClient
from testbed.storefiles import BadStore, StoredMessage, log_files, read_records

GET_MIN_OFFSET = 31
MANY = 32
"""Messages of one pull: what a broker gives at most."""


class RunningStore:
    """The store of the broker on a port of this host.

    - name: the machine's, in the promises
    - client: a connection to it
    - folder: where its store lies
    """

    def __init__(self, name: str, client: RemotingClient, folder: Path) -> None:
        self.name = name
        self._client = client
        self._range = self._log_range()
        self._log = {first: path.read_bytes() for first, path in log_files(folder)}

    def _log_range(self) -> tuple[int, int]:
        info = self._client.runtime_info()
        return int(info["commitLogMinOffset"]), int(info["commitLogMaxOffset"])

    def log_range(self) -> tuple[int, int]:
        """See StoreView; as it was when this view was made."""
        return self._range

    def record_at(self, log_offset: int) -> Seen | None:
        """See StoreView."""
        size = int.from_bytes(self.log_bytes(log_offset, log_offset + 4), "big")
        if log_offset + size > self._range[1]:
            return None
        try:
            (record,) = read_records(self.log_bytes(log_offset, log_offset + size))
        except (BadStore, ValueError):
            return None
        return _seen(record) if record.offset == log_offset else None

    def queue(self, topic: str, queue_id: int) -> tuple[int, list[Seen | None]]:
        """See StoreView."""
        fields = {"topic": topic, "queueId": str(queue_id)}
        first = int(self._client.call(GET_MIN_OFFSET, fields).expect(0).ext["offset"])
        end = self._client.max_queue_offset(topic, queue_id)
        seen: list[Seen | None] = []
        while (offset := first + len(seen)) < end:
            # One at a time once something is wrong: what is sound after it is seen all the same.
            seen += (
                self._messages(topic, queue_id, offset, MANY)
                or self._messages(topic, queue_id, offset, 1)
                or [None]
            )
        return first, seen

    def _messages(self, topic: str, queue_id: int, offset: int, count: int) -> list[Seen]:
        answer = self._client.pull(topic, queue_id, offset, count)
        if answer.code != 0:
            return []
        try:
            records = read_records(answer.body)
        except BadStore:
            return []
        whole = len(records) == int(answer.ext["nextBeginOffset"]) - offset
        return [_seen(record) for record in records] if whole else []

    def log_bytes(self, start: int, end: int) -> bytes:
        """See StoreView; as it was when this view was made."""
        firsts = list(self._log)  # in order
        number = max(bisect_right(firsts, start) - 1, 0)
        pieces = []
        for first in takewhile(lambda first: first < end, firsts[number:]):
            pieces.append(self._log[first][max(start - first, 0) : end - first])
        return b"".join(pieces)


def _seen(record: StoredMessage) -> Seen:
    return Seen(Place(record.topic, record.queue_id, record.queue_offset, record.offset), record.body)
