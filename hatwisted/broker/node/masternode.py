"""A master: takes puts, delivers what is delayed, asks about undecided transactions, and feeds its slaves."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.broker.admin.hastatus import HAStatusProcessor
from hatwisted.broker.node.brokernode import BrokerNode, NodeParts
from hatwisted.broker.node.writepath import WritePath
from hatwisted.broker.put.logrecord import record_at
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.transaction.transactioncheck import check_options
from hatwisted.remoting.server import ProcessorTable
from hatwisted.wire.codes import RequestCode

DRAIN_LIMIT = 3.0
"""Seconds that an orderly stop waits for the slaves to have what was appended."""


class MasterNode(BrokerNode):
    """Takes puts. flush_timeout: seconds a put waits for the disk; sync: SYNC_MASTER?"""

    def __init__(self, parts: NodeParts, flush_timeout: float, sync: bool) -> None:
        super().__init__(parts)
        self._flush_timeout = flush_timeout
        self._sync = sync

    def _register_role(self, table: ProcessorTable) -> None:
        parts = self.parts
        acks = PutAcks(
            parts.clock,
            self.store.flush,
            self._flush_timeout,
            self.ha if self._sync else None,
            partial(record_at, self.store),
        )
        self._writes = WritePath(
            parts.clock,
            self.store,
            parts.tables,
            acks,
            parts.cluster,
            parts.store_host,
            lambda: self.pull.options.broker_permission,
            self._consumer_admin.stats.count_sent_back,
            self._consumers.clients,
            check_options(parts.config.config),
        )
        self._writes.register_on(table)
        self._runtime.more.append(self._writes.figures)
        self._runtime.more.append(self.ha.figures)
        table.register(
            RequestCode.GET_BROKER_HA_STATUS, HAStatusProcessor(self.store.log, self.ha, None).status
        )

    def _start_role(self) -> None:
        """A master has nobody to dial (B16), but delivers delayed messages."""
        self._writes.start()

    def _stop_taking(self) -> None:
        self._writes.refuse()

    def _stop_role(self) -> Deferred[Any]:
        return self._writes.stop().addCallback(lambda _: self.ha.drain(DRAIN_LIMIT))
