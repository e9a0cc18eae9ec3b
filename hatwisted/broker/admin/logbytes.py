"""LOG_DIGESTS 20045 and READ_LOG 20046: what another one compares its copy of this broker's log with.

Any peer may ask, as it may pull any message. What that costs is bounded: a few requests at a time, a range of
some MiB each, read in a worker, and so many bytes a second together. Whoever asks for more is told to come back:
nothing is queued here for anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.broker.requests import answer_bad_requests
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.errors import OutsideLog, StoreError
from hatwisted.store.log.logranges import LogRanges
from hatwisted.timing.ratelimit import RateLimit
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import LogRange, begin_field, parse_bytes_wanted, parse_digests_wanted
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")

MOST_AT_ONCE: Final = 4
"""Requests whose bytes are being read."""
RATE: Final = 128 << 20
"""Bytes of log a second that are read for all who ask: a quarter of a processor, off the reactor."""


class LogBytesProcessor:
    """Answers both.

    - clock: of the rate
    - ranges: of this broker's log
    """

    def __init__(self, clock: IReactorTime, ranges: LogRanges) -> None:
        self._seconds_of_reading = RateLimit(clock, 1)
        self._ranges = ranges
        self._under_way = 0

    def register_on(self, table: ProcessorTable) -> None:
        """Put both handlers into `table`."""
        table.register(RequestCode.LOG_DIGESTS, answer_bad_requests(self.digests))
        table.register(RequestCode.READ_LOG, answer_bad_requests(self.read))

    def digests(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        wanted = parse_digests_wanted(request.ext)

        def begin() -> Deferred[RemotingCommand]:
            found = self._ranges.digests(wanted.span, wanted.block)
            return found.addCallback(lambda digests: response(request, body=digests))

        return self._admitted(request, wanted.span, begin)

    def read(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        span, record = parse_bytes_wanted(request.ext)

        def begin() -> Deferred[RemotingCommand]:
            return self._ranges.record_start(span.begin).addCallback(bytes_from) if record else read(span)

        def bytes_from(start: int) -> Deferred[RemotingCommand]:
            end = min(start + span.end - span.begin, self._ranges.held.end)
            return read(LogRange(start, end))

        def read(found: LogRange) -> Deferred[RemotingCommand]:
            answer = self._ranges.read(found)
            return answer.addCallback(lambda data: response(request, ext=begin_field(found.begin), body=data))

        return self._admitted(request, span, begin)

    def _admitted(
        self, request: RemotingCommand, span: LogRange, begin: Callable[[], Deferred[RemotingCommand]]
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        seconds = (span.end - span.begin) / RATE
        if self._under_way >= MOST_AT_ONCE or not self._seconds_of_reading.admits(None, seconds):
            remark = "the log is being read for others as fast as is allowed; ask again in a second"
            return response(request, ResponseCode.SYSTEM_BUSY, remark)
        self._under_way += 1
        return begin().addErrback(_refuse, request).addBoth(self._ended)

    def _ended(self, result: T) -> T:
        self._under_way -= 1
        return result


def _refuse(failure: Failure, request: RemotingCommand) -> RemotingCommand:
    failure.trap(StoreError, OSError)
    error = failure.value
    code = ResponseCode.SYSTEM_ERROR
    if isinstance(error, OutsideLog):
        code = ResponseCode.PULL_OFFSET_MOVED if error.expired else ResponseCode.INVALID_PARAMETER
    return response(request, code, str(error))
