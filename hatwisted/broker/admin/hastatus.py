"""GET_HA_STATUS (907): who copies this log, and how far; or, on a slave, how far we have copied.

The body is RocketMQ 5's HARuntimeInfo, so `mqadmin haStatus` reads it; fields beyond it (state, problem) are
ignored by Java clients and read by ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hatwisted.ha.master import HAService
from hatwisted.ha.slave import HAClientService
from hatwisted.remoting.processortable import response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.wire import fastjson
from hatwisted.wire.remoting import RemotingCommand


class MasterSeen(NamedTuple):
    """What a slave knows of its master's log, by the master's last word; 0 if it hasn't said.

    flushed: how far it's on its disk; end: where it ends
    """

    flushed: Callable[[], int] = lambda: 0
    end: Callable[[], int] = lambda: 0


UNSEEN = MasterSeen()


class HAStatusProcessor:
    """Answers 907.

    - log: this broker's
    - master: its accept side
    - slave: its dialling side, on a slave
    - seen: on a slave, what it knows of its master's log
    """

    def __init__(
        self,
        log: CommitLog,
        master: HAService,
        slave: HAClientService | None,
        seen: MasterSeen = UNSEEN,
    ) -> None:
        self._log = log
        self._master = master
        self._slave = slave
        self._seen = seen

    def status(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """The answer."""
        body: dict[str, Any] = {
            "haClientRuntimeInfo": self._client(),
            "haConnectionInfo": self._connections(),
            "inSyncSlaveNums": self._master.in_sync_count() - 1,
            "master": self._slave is None,
            "masterCommitLogMaxOffset": self._master_end(self._slave),
        }
        return response(request, body=fastjson.dumps_compact(body))

    def _master_end(self, slave: HAClientService | None) -> int:
        """What has come over the link is more recent than the master's last word about it."""
        if slave is None:
            return self._log.max_offset
        told = self._seen.end()
        return max(told, self._log.max_offset) if told and slave.agrees else told

    def _client(self) -> dict[str, Any]:
        if self._slave is None:
            return self._of_all_links()
        status = self._slave.status()
        return {
            "lastReadTimestamp": int(status.last_read * 1000),
            "lastWriteTimestamp": int(status.last_write * 1000),
            "masterAddr": status.master_address or "",
            "masterFlushOffset": self._seen.flushed(),
            "maxOffset": self._log.max_offset,
            "problem": status.problem,
            "state": status.state,
            "transferredByteInSecond": status.received_per_second,
        }

    def _of_all_links(self) -> dict[str, Any]:
        """A master has no dialling side, and RocketMQ's leaves all of this 0: here it sums up its links."""
        links = self._master.status()
        return {
            "lastReadTimestamp": int(max((link.last_report for link in links), default=0.0) * 1000),
            "lastWriteTimestamp": int(max((link.last_write for link in links), default=0.0) * 1000),
            "masterFlushOffset": self._log.flushed_offset,
            "maxOffset": self._log.max_offset,
            "transferredByteInSecond": sum(link.sent_per_second for link in links),
        }

    def _connections(self) -> list[dict[str, Any]]:
        gap = self._master.settings.max_gap_not_in_sync
        return [
            {
                "addr": slave.address,
                "certificate": slave.name or "",
                "diff": slave.lag_bytes,
                "inSync": slave.ack_offset >= 0 and slave.lag_bytes < gap,
                "lastReadTimestamp": int(slave.last_report * 1000),
                "lastWriteTimestamp": int(slave.last_write * 1000),
                "slaveAckOffset": slave.ack_offset,
                "state": slave.state,
                "transferFromWhere": slave.sent_offset,
                "transferredByteInSecond": slave.sent_per_second,
            }
            for slave in self._master.status()
        ]
