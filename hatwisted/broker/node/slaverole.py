"""A slave: copies its master's log and tables, serves readers, and refuses what only a master may take."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.broker.admin.hastatus import HAStatusProcessor, MasterSeen
from hatwisted.broker.node.brokernode import NodeParts
from hatwisted.broker.node.copyreport import CopyReport
from hatwisted.broker.node.logaudit import LogAudit
from hatwisted.broker.node.logrepair import LogRepair
from hatwisted.broker.node.queuenumbers import QueueNumbers
from hatwisted.broker.node.slavesync import SlaveSynchronizer, SyncOptions
from hatwisted.broker.node.tablehold import TableHold
from hatwisted.broker.send.sendback import refuse_send_back
from hatwisted.broker.send.sendmessage import SEND_CODES, refuse_on_slave
from hatwisted.broker.transaction.endtransaction import refuse_end_transaction
from hatwisted.ha.slave import HAClientService
from hatwisted.ha.slavestate import SlaveState
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.codes import RequestCode

MASTER_LOOK = 2.0
"""Seconds between two questions to the name servers while a slave knows no master: it may have registered a
moment before its master did, and the next regular registration is half a minute away."""

LOGS_DIFFER = frozenset((SlaveState.OFFSET_MISMATCH, SlaveState.MASTER_LACKS_OFFSET))
"""Where offsets of this slave mean other messages than the master's."""


def logs_agree(link: HAClientService) -> bool:
    """Is our log, as far as can be known, a prefix of the master's? Not any more once the master had lost
    its tail: what it has written there since are other messages than those that consumers of this slave saw."""
    return link.state not in LOGS_DIFFER and link.suspect_from is None


class SlaveRole:
    """What a node does as a slave.

    - node: what both roles have
    - ha_client: copies the master's log
    - sync: how its tables are asked for
    - audit: compares its log with the master's
    - repair: and overwrites what is rotten
    - report: how far the copy has come
    """

    def __init__(
        self,
        node: NodeParts,
        ha_client: HAClientService,
        sync: SyncOptions,
        audit: LogAudit,
        repair: LogRepair,
        report: CopyReport,
    ) -> None:
        self._role = node.role
        self._runtime = node.runtime
        self._audit = audit
        self._report = report
        self._store = node.store
        self._registration = node.registration
        self._master = node.master
        self._stale = node.consumers.progress.stale
        self._last_run = node.last_run
        self.ha_client = ha_client
        client, clock, store = node.client, node.clock, node.store

        def make_hold() -> TableHold:
            return TableHold(
                clock, store.log, store.flusher.flush_now, lambda: ha_client.agrees, lambda: ha_client.heard
            )

        self.synchronizer = SlaveSynchronizer(
            client, clock, node.tables, sync, make_hold(), lambda: logs_agree(ha_client)
        )
        self._numbers = QueueNumbers(
            client, clock, store, node.tables.topics, make_hold(), lambda: self.synchronizer.topics_from
        )
        self._look = PeriodicCall(node.clock, "searching for a master", self._look_for_master)
        ha_client.on_fit(self._follow)
        ha_client.on_fit(report.look_now)
        ha_client.on_fit(self._numbers.link_changed)
        self.processors = ProcessorTable()
        self.processors.register_batch(SEND_CODES, refuse_on_slave)
        self.processors.register(RequestCode.CONSUMER_SEND_MSG_BACK, refuse_send_back)
        self.processors.register(RequestCode.END_TRANSACTION, refuse_end_transaction)
        repair.register_on(self.processors)
        status = HAStatusProcessor(
            node.store.log,
            node.ha,
            ha_client,
            MasterSeen(lambda: self.synchronizer.master_flush_offset, lambda: report.master_end),
        )
        self.processors.register(RequestCode.GET_BROKER_HA_STATUS, status.status)

    def start(self) -> None:
        """Copy."""
        self._last_run.serve(master=False)
        self._stale.end()
        self._master.add_listener(self._follow)
        self._follow()
        self.ha_client.startService()
        self.synchronizer.start()
        self._numbers.start()
        self._store.add_arrival_listener(self.synchronizer.arrived)
        self._look.start(MASTER_LOOK)
        self._runtime.add_source(self._audit.figures)
        self._audit.start()
        self._report.start()

    def _look_for_master(self) -> None:
        if self._master.registered is None:
            self._registration.register_now()

    def _follow(self) -> None:
        """Tables speak of messages: they are taken from the broker whose log is copied, and from nobody else."""
        if self.ha_client.fits:
            self._last_run.found_same()
        self._role.apart = self._last_run.own
        self.synchronizer.follow(self._master.tables if self.ha_client.fits else None)

    def stop_taking(self) -> None:
        """Ask for no more tables; the log is copied until the link closes."""
        self._master.remove_listener(self._follow)
        self._store.remove_arrival_listener(self.synchronizer.arrived)
        self.synchronizer.stop()
        self._numbers.stop()
        self._look.stop()
        self._audit.stop()
        self._report.stop()
        self._runtime.remove_source(self._audit.figures)

    def stop(self) -> Deferred[Any]:
        """Close the link."""
        return self.ha_client.stopService()
