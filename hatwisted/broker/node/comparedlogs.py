"""A slave's log beside its master's: the master is asked for what it can say of its own, the slave reads its."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred

from hatwisted.clientcore.errors import BadAnswer
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.deferreds import all_of
from hatwisted.store.log.logranges import LogRanges
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.logrange import BytesWanted, DigestsWanted, LogRange, parse_begin
from hatwisted.wire.remoting import RemotingCommand

TIMEOUT: Final = 15.0
"""Seconds the master has for an answer; a slow disk may need some for 16 MiB."""


class ComparedLogs:
    """A LogPair.

    - client: asks the master
    - master: its remoting address at present, "host:port"
    - ranges: of our own log
    """

    def __init__(self, client: RemotingClient, master: Callable[[], str], ranges: LogRanges) -> None:
        self._client = client
        self._master = master
        self.ranges = ranges

    async def digests(self, span: LogRange, block: int) -> tuple[bytes, bytes]:
        """See LogPair. Fails with CallFailed, Refused, OutsideLog or OSError, as all here."""
        wanted = DigestsWanted(span, block).to_ext()
        asked = self._ask(RequestCode.LOG_DIGESTS, wanted).addCallback(lambda answer: answer.body)
        theirs, ours = await all_of(asked, self.ranges.digests(span, block))
        if len(theirs) != len(ours):
            raise BadAnswer(f"{self._master()}: {len(theirs)} bytes of digests, not {len(ours)}")
        return theirs, ours

    async def read(self, span: LogRange) -> tuple[bytes, bytes]:
        """See LogPair. What our log doesn't hold yet isn't compared."""
        held = span.below(self.ranges.held.end)
        if held is None:
            return b"", b""
        asked = self._ask(RequestCode.READ_LOG, BytesWanted(held).to_ext())
        theirs, ours = await all_of(asked.addCallback(lambda answer: answer.body), self.ranges.read(held))
        return theirs, ours

    async def record_starts(self, offset: int) -> tuple[int, int]:
        """See LogPair."""
        wanted = BytesWanted(LogRange(offset, offset + 1), record=True).to_ext()
        asked = self._ask(RequestCode.READ_LOG, wanted).addCallback(lambda answer: parse_begin(answer.ext))
        theirs, ours = await all_of(asked, self.ranges.record_start(offset))
        return theirs, ours

    def _ask(self, code: RequestCode, ext: dict[str, str]) -> Deferred[RemotingCommand]:
        return self._client.ask(self._master(), RemotingCommand(code, ext=ext), TIMEOUT)
