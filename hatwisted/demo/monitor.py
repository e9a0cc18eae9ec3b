"""What the two brokers say about themselves, asked twice a second."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import inlineCallbacks

from hatwisted.remoting.client import CallFailed, RemotingClient
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand

CALL_TIMEOUT = 2.0  # s

UNKNOWN = -1


class Figures(msgspec.Struct):
    """Bytes of the commit log; UNKNOWN until a broker has told."""

    master_offset: int = UNKNOWN
    slave_ack_offset: int = UNKNOWN
    slave_offset: int = UNKNOWN
    slave_behind: int = UNKNOWN
    """Bytes of the slave's log that its queues and index don't hold yet."""

    @property
    def lag(self) -> int:
        """Bytes that the slave hasn't acknowledged, UNKNOWN while no slave is linked."""
        if UNKNOWN in (self.master_offset, self.slave_ack_offset):
            return UNKNOWN
        return max(0, self.master_offset - self.slave_ack_offset)


class _RuntimeInfo(msgspec.Struct):
    table: dict[str, str]


class Monitor:
    """Keeps `figures` up to date, one `refresh` at a time."""

    def __init__(self, client: RemotingClient, master: str, slave: str) -> None:
        self._client = client
        self._master = master
        self._slave = slave
        self.figures = Figures()

    @inlineCallbacks
    def refresh(self) -> Any:
        """Ask both; a broker that doesn't answer keeps its last figures."""
        master = yield self._table(self._master)
        slave = yield self._table(self._slave)
        self.figures = Figures(
            master_offset=int(master.get("commitLogMaxOffset", self.figures.master_offset)),
            slave_ack_offset=int(master.get("haSlaveAckOffset", self.figures.slave_ack_offset)),
            slave_offset=int(slave.get("commitLogMaxOffset", self.figures.slave_offset)),
            slave_behind=int(slave.get("dispatchBehindBytes", self.figures.slave_behind)),
        )
        return self.figures

    @inlineCallbacks
    def _table(self, address: str) -> Any:
        request = RemotingCommand(code=RequestCode.GET_BROKER_RUNTIME_INFO)
        try:
            answer = yield self._client.call(address, request, CALL_TIMEOUT)
        except CallFailed:
            return {}
        return msgspec.json.decode(answer.body, type=_RuntimeInfo).table
