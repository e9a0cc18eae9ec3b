"""GET_HA_STATUS (907): who copies this log, and how far; or, on a slave, how far we have copied.

The body is RocketMQ 5's HARuntimeInfo, so `mqadmin haStatus` reads it; fields beyond it (state, problem) are
passed over by Java clients and read by ours.
"""

from __future__ import annotations

from typing import Any

from hatwisted.ha.master import HAService
from hatwisted.ha.slave import HAClientService
from hatwisted.remoting.server import RemotingConnection, response
from hatwisted.store.commitlog import CommitLog
from hatwisted.wire import fastjson
from hatwisted.wire.remoting import RemotingCommand


class HAStatusProcessor:
    """log: this broker's; master: its accept side; slave: its dialling side, on a slave."""

    def __init__(self, log: CommitLog, master: HAService, slave: HAClientService | None) -> None:
        self._log = log
        self._master = master
        self._slave = slave

    def status(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """The answer."""
        body: dict[str, Any] = {
            "haClientRuntimeInfo": self._client(),
            "haConnectionInfo": self._connections(),
            "inSyncSlaveNums": self._master.in_sync_count() - 1,
            "master": self._slave is None,
            "masterCommitLogMaxOffset": self._log.max_offset if self._slave is None else 0,
        }
        return response(request, body=fastjson.dumps_compact(body))

    def _client(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": self._log.max_offset,
            "transferredByteInSecond": 0,
        }
        if self._slave is not None:
            status = self._slave.status()
            info["lastReadTimestamp"] = int(status.last_read * 1000)
            info["masterAddr"] = status.master_address or ""
            info["state"] = status.state
            info["problem"] = status.problem
        return info

    def _connections(self) -> list[dict[str, Any]]:
        gap = self._master.settings.max_gap_not_in_sync
        return [
            {
                "addr": slave.address,
                "diff": slave.lag_bytes,
                "inSync": slave.ack_offset >= 0 and slave.lag_bytes < gap,
                "slaveAckOffset": slave.ack_offset,
                "state": slave.state,
                "transferFromWhere": slave.sent_offset,
                "transferredByteInSecond": 0,
            }
            for slave in self._master.status()
        ]
