"""A slave: copies its master's log and tables, serves readers, and refuses what only a master may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.broker.admin.hastatus import HAStatusProcessor
from hatwisted.broker.node.brokernode import BrokerNode, NodeParts
from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.broker.node.registration import KnownMaster
from hatwisted.broker.node.slavesync import SlaveSynchronizer, SyncOptions
from hatwisted.broker.send.sendback import refuse_send_back
from hatwisted.broker.send.sendmessage import SEND_CODES, refuse_on_slave
from hatwisted.broker.transaction.endtransaction import refuse_end_transaction
from hatwisted.ha.interfaces import LogDiffers, MasterRange
from hatwisted.ha.slave import HAClientService
from hatwisted.ha.slavestate import SlaveState
from hatwisted.remoting.server import ProcessorTable
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.codes import RequestCode

MASTER_LOOK = 2.0
"""Seconds between two questions to the name servers while a slave knows no master: it may have registered a
moment before its master did, and the next regular registration is half a minute away."""

LOGS_DIFFER = frozenset((SlaveState.OFFSET_MISMATCH, SlaveState.MASTER_LACKS_OFFSET))
"""Where offsets of this slave mean other messages than the master's."""


def logs_agree(link: HAClientService) -> bool:
    """Is our log, as far as anybody can tell, a beginning of the master's? Not any more once the master had lost
    its tail: what it has written there since are other messages than those that consumers of this slave saw."""
    return link.state not in LOGS_DIFFER and link.suspect_from is None


class SlaveNode(BrokerNode):
    """Copies its master.

    - make_ha_client: builds the dialling side
    - sync: how it asks for its master's tables
    - fixed_ha_address: haMasterAddress, or None to follow the name servers (B17)
    """

    slave = True

    def __init__(
        self,
        parts: NodeParts,
        make_ha_client: Callable[[MessageStore, MasterRange, LogDiffers], HAClientService],
        sync: SyncOptions,
        fixed_ha_address: str | None,
    ) -> None:
        super().__init__(parts)
        self._make_ha_client = make_ha_client
        self._fixed = fixed_ha_address
        self._master = KnownMaster()
        self._look = PeriodicCall(parts.clock, "the search for a master", self._look_for_master)
        tables = parts.tables
        self.synchronizer = SlaveSynchronizer(
            parts.client,
            parts.clock,
            tables.topics,
            tables.groups,
            tables.offsets,
            tables.delays,
            sync,
        )
        self.synchronizer.may_hand_back = lambda: logs_agree(self.ha_client)

    def _hears_master(self) -> bool:
        return self._master.address is not None

    def _register_role(self, table: ProcessorTable) -> None:
        self._master_log = MasterLog(self.parts.client, self.store, self._master_address)
        self.ha_client = self._make_ha_client(self.store, self._master_range, self._master_log.difference)
        table.register_batch(SEND_CODES, refuse_on_slave)
        table.register(RequestCode.CONSUMER_SEND_MSG_BACK, refuse_send_back)
        table.register(RequestCode.END_TRANSACTION, refuse_end_transaction)
        table.register(
            RequestCode.GET_BROKER_HA_STATUS,
            HAStatusProcessor(
                self.store.log, self.ha, self.ha_client, lambda: self.synchronizer.master_flush_offset
            ).status,
        )

    def _start_role(self) -> None:
        self._follow()
        self.ha_client.startService()
        self.synchronizer.start()
        self.store.add_arrival_listener(self.synchronizer.arrived)
        self._look.start(MASTER_LOOK)

    def _look_for_master(self) -> None:
        if self._master.address is None:
            self.registration.register_now()

    def _learned_master(self, known: KnownMaster) -> None:
        self._master = known
        if self.running and hasattr(self, "ha_client"):
            self._follow()

    def _follow(self) -> None:
        alone = self._fixed is not None and not self.registration.has_name_servers
        self.synchronizer.master = _remoting_of(self._fixed) if alone else self._master.address
        self.ha_client.master_address = self._fixed or self._master.ha_address

    def _master_range(self) -> Deferred[tuple[int, int]]:
        """What the master's log holds. Asked when a link to it is made, which is the moment to ask for its tables
        as well."""
        self.synchronizer.round_now()
        return self._master_log.bounds()

    def _master_address(self) -> str:
        return self._master.address or _remoting_of(self.ha_client.master_address)

    def _stop_taking(self) -> None:
        self.synchronizer.stop()
        self._look.stop()

    def _stop_role(self) -> Deferred[Any]:
        return self.ha_client.stopService()


def _remoting_of(ha_address: str | None) -> str:
    """A broker's remoting address, by the rule that its HA port is the one after (B15)."""
    host, _, port = (ha_address or "").rpartition(":")
    return f"{host}:{int(port) - 1}"
