"""A broker as one Twisted service: store, tables, replication, ports and registration in the right order.

Start: lock and recover the store in the foreground, read the tables, open the ports, register. Stop runs the
other way round and loses nothing: take no puts any more, let the slaves have the rest, answer who still waits,
close the ports, write the tables, flush, and leave the folder as a clean exit does.

Master and slave are the same broker but for three things: who may send, which way replication runs, and whose
tables count. `MasterNode` (masternode.py) and `SlaveNode` (slavenode.py) hold just these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from twisted.logger import Logger

from hatwisted.broker.admin.consumeradmin import ConsumerAdmin
from hatwisted.broker.admin.operations import Operations
from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.consumer.offsetsync import OffsetSyncProcessors
from hatwisted.broker.consumer.processors import ConsumerProcessors
from hatwisted.broker.node.registration import KnownMaster, Registration
from hatwisted.broker.node.slaveids import SlaveIds
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.broker.pull.pullmessage import PULL_CODES, PullOptions, PullProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig
from hatwisted.ha.master import HAService
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.server import ProcessorTable, RemotingServerFactory
from hatwisted.store.interfaces import IWorker
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.recovery import RecoveryReport

PROGRESS_INTERVAL = 2.0
"""Seconds between two log lines of a recovery under way."""

Listen = Callable[[IProtocolFactory], IListeningPort]


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What a node is made of. listen_remoting, listen_vip: bind these ports for a factory (None: none); make_ha,
    make_registration: build what needs the loaded log, or the node's own callbacks; check_config: raises
    ConfigError if a broker of this role couldn't start with it."""

    clock: IReactorTime
    store: MessageStore
    tables: BrokerTables
    client: RemotingClient
    workers: Sequence[IWorker]
    listen_remoting: Listen
    listen_vip: Listen | None
    make_ha: Callable[[MessageStore], HAService]
    make_registration: Callable[[Callable[[KnownMaster], None]], Registration]
    pull_options: PullOptions
    config: LiveConfig[BrokerConfig]
    check_config: Callable[[BrokerConfig], object]
    broker_name: str
    cluster: str
    store_host: bytes


class BrokerNode(Service):
    """What master and slave share."""

    _logger = Logger()
    slave = False
    ha: HAService

    def __init__(self, parts: NodeParts) -> None:
        self.parts = parts
        self.store = parts.store
        self.registration = parts.make_registration(self._learned_master)
        self._ports: list[IListeningPort] = []
        self._factories: list[RemotingServerFactory] = []
        self._progress_due = 0.0

    # -- start -----------------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Recover, open, register. Raises StoreError, OSError or CannotListenError."""
        super().startService()
        self._progress_due = self.parts.clock.seconds() + PROGRESS_INTERVAL
        report = self.store.load(self._progress)
        self._log_loaded(report)
        self.parts.tables.load()
        self.ha = self.parts.make_ha(self.store)
        table = self._processors()
        self.store.start()
        self.ha.startService()
        self._open(table, self.parts.listen_remoting)
        if self.parts.listen_vip is not None:
            self._open(table.without(*PULL_CODES), self.parts.listen_vip)
        self.parts.tables.start()
        self._consumers.start()
        self._consumer_admin.start()
        self._hold.start()
        self._runtime.start()
        self._start_role()
        self.registration.start()

    def _log_loaded(self, report: RecoveryReport) -> None:
        self._logger.info(
            "store {root} loaded after {exit}: the log runs from {begin} to {end}; {records} records checked, "
            "{torn} bytes of torn tail cut, {dispatched} bytes dispatched",
            root=self.store.root,
            exit="an unclean exit" if report.unclean else "a clean exit, or none",
            begin=self.store.log.min_offset,
            end=report.end,
            records=report.records,
            torn=report.torn_bytes,
            dispatched=report.dispatched_bytes,
        )

    def _progress(self, done: int, total: int) -> None:
        now = self.parts.clock.seconds()
        if now >= self._progress_due:
            self._progress_due = now + PROGRESS_INTERVAL
            self._logger.info("recovering: {done} of {total} MiB", done=done >> 20, total=total >> 20)

    def _open(self, table: ProcessorTable, listen: Listen) -> None:
        factory = RemotingServerFactory(table, self.parts.clock)
        self._factories.append(factory)
        self._ports.append(listen(factory))

    def _processors(self) -> ProcessorTable:
        parts, tables, store = self.parts, self.parts.tables, self.store
        table = ProcessorTable()
        self._consumers = ConsumerProcessors(
            parts.clock,
            tables.topics,
            tables.groups,
            tables.offsets,
            tables.filters,
            store.starts_hot,
            store.queue_end,
            slave=self.slave,
        )
        self._consumers.register_on(table)
        pull = self.pull = PullProcessor(
            store.get_messages,
            tables.topics,
            tables.groups,
            self._consumers.clients,
            self._consumers.progress,
            tables.filters,
            parts.pull_options,
        )
        self._hold = pull.hold = PullHold(parts.clock, pull.retry, store.queue_end)
        store.add_arrival_listener(self._hold.arrived)
        pull.register_on(table)
        self._consumer_admin = ConsumerAdmin(
            parts.clock, store, tables, self._consumers, parts.broker_name, parts.cluster, parts.store_host
        )
        self._consumer_admin.register_on(table)
        pull.count_get = self._consumer_admin.stats.count_get
        self._runtime = RuntimeInfo(parts.clock, store)
        Operations(
            parts.clock,
            store,
            tables,
            self._consumers.clients,
            self._consumer_admin.stats,
            self._runtime,
            parts.broker_name,
            parts.config,
            check=parts.check_config,
            settled=self.registration.settled,
            slave=self.slave,
            hears_master=self._hears_master,
        ).register_on(table)
        OffsetSyncProcessors(
            tables.offsets,
            store.queue_end,
            slave=self.slave,
            flushed_offset=lambda: store.log.flushed_offset,
            asked=SlaveIds(parts.clock).asked,
        ).register_on(table)
        self._register_role(table)
        return table

    # -- stop ------------------------------------------------------------------------------------------------

    @inlineCallbacks
    def stopService(self) -> Any:
        """Stop in order; fires when the folder is as a clean exit leaves it."""
        super().stopService()
        if not self._ports:
            # Never came up: there's nothing to leave in order, and the reason has been told.
            self._stop_workers()
            return
        self._stop_taking()
        yield self.registration.stop()
        yield self._stop_role()
        yield self.ha.stopService()
        self._consumers.stop()
        self._consumer_admin.stop()
        self._hold.stop()
        self._runtime.stop()
        for port in self._ports:
            yield maybeDeferred(port.stopListening)
        for factory in self._factories:
            for connection in list(factory.connections):
                connection.close()
        yield self.parts.tables.stop()
        yield self.parts.client.close()
        yield self.store.stop()
        self._stop_workers()

    def _stop_workers(self) -> None:
        for worker in self.parts.workers:
            worker.stop()

    # -- what differs by role --------------------------------------------------------------------------------

    def _learned_master(self, known: KnownMaster) -> None:
        """The name servers say who the master is."""

    def _hears_master(self) -> bool:
        """Is there somebody who tells of new topics, if they aren't made here?"""
        return True

    def _register_role(self, table: ProcessorTable) -> None:
        raise NotImplementedError

    def _start_role(self) -> None:
        raise NotImplementedError

    def _stop_taking(self) -> None:
        raise NotImplementedError

    def _stop_role(self) -> Deferred[Any]:
        raise NotImplementedError
