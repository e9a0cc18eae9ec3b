"""REPAIR_LOG 20047: a slave overwrites rotten records of its log by its master's, when an operator says so.

The request names a range, and no more is believed of it: the slave judges both copies itself. It overwrites a
record only if its own isn't valid and the master's is, as long as it's linked: then the end of its log is known to
be the master's, and logs that agree at their end haven't diverged before. What was there is kept under `repair`.
Where both copies are valid, or the master's is rotten, nothing is touched, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.node.comparedlogs import ComparedLogs
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.clientcore.errors import ClientError
from hatwisted.logcodec.logdrift import DriftedRecord, Rotten, intact_bytes, judged_records
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.rangerepair import replace_range
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import LogRange, parse_repair_wanted
from hatwisted.wire.remoting import RemotingCommand

MOST_WAITING = 16
"""Repairs that wait for the one under way; further ones are refused."""


class LogRepair:
    """Of one slave.

    - logs: its log and its master's
    - linked: is the end of its log known to be the master's?
    - fs: the disk
    - root: the store's folder
    """

    _log = Logger()

    def __init__(self, logs: ComparedLogs, linked: Callable[[], bool], fs: IFileSystem, root: str) -> None:
        self._logs = logs
        self._linked = linked
        self._fs = fs
        self._root = root
        self._turn = DeferredLock()

    def register_on(self, table: ProcessorTable) -> None:
        """Put the handler into `table`."""
        table.register(RequestCode.REPAIR_LOG, answer_bad_requests(self.repair))

    def repair(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        span = parse_repair_wanted(request.ext)
        if not self._linked():
            remark = "this slave isn't linked to its master: whether their logs agree isn't known"
            return response(request, ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if len(self._turn.waiting) >= MOST_WAITING:
            return response(request, ResponseCode.SYSTEM_BUSY, f"{MOST_WAITING} repairs are waiting already")
        done: Deferred[RemotingCommand] = self._turn.run(
            lambda: Deferred.fromCoroutine(self._repaired(request, span))
        )
        return done.addErrback(_refuse, request)

    async def _repaired(self, request: RemotingCommand, span: LogRange) -> RemotingCommand:
        records = [await self._repaired_record(each) for each in await judged_records(self._logs, span)]
        return response(request, body=fastjson.dumps_compact({"records": records}))

    async def _repaired_record(self, record: DriftedRecord) -> dict[str, Any]:
        """What became of it; sideFile: where the old bytes are, "" if nothing was touched."""
        kept = ""
        if record.rotten is Rotten.SLAVE:
            theirs, _ = await self._logs.read(LogRange(record.begin, record.end))
            intact = intact_bytes(theirs, record)
            if intact is not None and self._linked():
                span = LogRange(record.begin, record.begin + len(intact))
                work = partial(_replace, self._fs, self._root, record.begin, intact)
                kept = await self._logs.ranges.run(span, work)
                self._log.warn(
                    "rotten bytes {begin} to {end} of the log replaced by the master's; kept in {kept}",
                    event="audit.repaired",
                    begin=span.begin,
                    end=span.end,
                    kept=kept,
                )
        return {
            "begin": record.begin,
            "end": record.end,
            "rotten": record.rotten.value,
            "sideFile": kept,
        }


def _replace(fs: IFileSystem, root: str, begin: int, intact: bytes, log: Any) -> str:
    return replace_range(fs, root, log, begin, intact)


def _refuse(failure: Failure, request: RemotingCommand) -> RemotingCommand:
    failure.trap(StoreError, OSError, ClientError)
    return response(request, ResponseCode.SYSTEM_ERROR, failure.getErrorMessage())
