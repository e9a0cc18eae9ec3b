"""The figures of the two brokers, asked for while the demo runs."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from twisted.internet.defer import inlineCallbacks

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.answers import decoded
from hatwisted.clientcore.errors import BadAnswer, CallFailed, Refused
from hatwisted.wire.codes import RequestCode

CALL_TIMEOUT = 2.0  # s

UNKNOWN = -1


class Figures(msgspec.Struct):
    """Bytes of the commit log; UNKNOWN until a broker has answered."""

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
    table: dict[str, str] = {}


class _Link(msgspec.Struct, rename="camel"):
    slave_ack_offset: int


class _HAStatus(msgspec.Struct, rename="camel"):
    ha_connection_info: list[_Link] = []


_T = TypeVar("_T", bound=msgspec.Struct)


class Monitor:
    """Keeps `figures` up to date, one `refresh` at a time.

    - cluster: asks for them
    - master, slave: "host:port"
    """

    def __init__(self, cluster: Cluster, master: str, slave: str) -> None:
        self._session = cluster.session
        self._master = master
        self._slave = slave
        self.figures = Figures()

    @inlineCallbacks
    def refresh(self) -> Any:
        """Ask both; a broker that doesn't answer keeps its last figures. Fires with the figures."""
        links = yield self._ask(self._master, RequestCode.GET_BROKER_HA_STATUS, _HAStatus)
        master = yield self._ask(self._master, RequestCode.GET_BROKER_RUNTIME_INFO, _RuntimeInfo)
        slave = yield self._ask(self._slave, RequestCode.GET_BROKER_RUNTIME_INFO, _RuntimeInfo)
        acks = [link.slave_ack_offset for link in links.ha_connection_info]
        self.figures = Figures(
            master_offset=int(master.table.get("commitLogMaxOffset", self.figures.master_offset)),
            slave_ack_offset=max(acks, default=UNKNOWN),
            slave_offset=int(slave.table.get("commitLogMaxOffset", self.figures.slave_offset)),
            slave_behind=int(slave.table.get("dispatchBehindBytes", self.figures.slave_behind)),
        )
        return self.figures

    @inlineCallbacks
    def _ask(self, address: str, code: int, kind: type[_T]) -> Any:
        try:
            answer = yield deferred(self._session.ask(address, code, timeout=CALL_TIMEOUT))
            return decoded(address, answer, kind)
        except (CallFailed, Refused, BadAnswer):
            return kind()
