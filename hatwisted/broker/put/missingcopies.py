"""Puts that are stored here and on no slave, as far as this master knows, in its log.

The producer sees each by its status; the operator sees these lines: the first put at once,
with what it takes to find it, then one line a minute with the number of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.store.errors import StoreError
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import SYS_BORN_HOST_V6
from hatwisted.wire.storedrecord import Record

REASONS = {
    PutStatus.FLUSH_SLAVE_TIMEOUT: "no slave has acknowledged it in time",
    PutStatus.SLAVE_NOT_AVAILABLE: "no slave is connected, or close enough to be waited for",
}


class MissingCopies:
    """Logs one master's puts that no slave has. record: the stored record at a log offset, None if it can't be
    read; a put that waits has let go of its message."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, record: Callable[[int], Record | None]) -> None:
        self._record = record
        self._throttle = LogThrottle(clock)

    def note(self, puts: Sequence[Put], status: PutStatus) -> None:
        """`puts`, at least one, are answered with `status`."""
        reason = REASONS.get(status)
        if reason is None:
            return
        left_out = self._throttle.admit(status, len(puts))
        if left_out is None:
            return
        put = puts[0]
        self._log.error(
            "put answered {status}, {reason}: topic {topic}, tags {tags}, commit log offset {offset}, "
            "client {client}{more}",
            event="put.unreplicated",
            status=status.value,
            reason=reason,
            topic=put.topic,
            tags=self._tags(put.offset),
            offset=put.offset,
            client=HostPort.unpack(put.born_host, ipv6=bool(put.sys_flag & SYS_BORN_HOST_V6)),
            more=more_like_it(left_out + len(puts) - 1),
        )

    def _tags(self, offset: int) -> str:
        """Of the put's first message, as its producer set them."""
        try:
            record = self._record(offset)
        except (OSError, StoreError, LookupError):
            return "unknown"
        return "unknown" if record is None else record.properties.get("TAGS", "none")
