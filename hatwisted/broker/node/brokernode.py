"""A broker as one Twisted service: store, tables, replication, ports and registration in the right order.

Start: lock and recover the store in the foreground, read the tables, open the ports, register. Stop runs the
other way round and loses nothing: take no more puts, let the slaves have the rest, answer whoever still waits,
close the ports, write the tables, flush, and leave the folder as a clean exit does.

Master and slave are the same node in another role: a role is a set of services with a table of processors
(`masterrole`, `slaverole`). The node's ports serve its own processors together with those of its role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.internet.interfaces import IListeningPort, IReactorTime
from twisted.logger import Logger

from hatwisted import __version__
from hatwisted.acl.aclfiles import AclFiles
from hatwisted.acl.audittrail import State
from hatwisted.acl.entrance import Entrance
from hatwisted.broker.admin.consumeradmin import ConsumerAdmin
from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.consumer.consumerprocessors import ConsumerProcessors
from hatwisted.broker.consumer.offsetsync import OffsetSyncProcessors
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.node.masteraddress import MasterAddress
from hatwisted.broker.node.registration import Registration
from hatwisted.broker.node.tablefollowers import TableFollowers
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.broker.pull.pullmessage import PullProcessor
from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.role import Role
from hatwisted.broker.tables import BrokerTables
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig
from hatwisted.config.tlskeys import TlsMode
from hatwisted.ha.master import HAService
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.interfaces import IConnecting, Listen
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.store.interfaces import IWorker
from hatwisted.store.lifecycle.lastrun import LastRun
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.logranges import LogRanges
from hatwisted.store.messagestore import MessageStore
from hatwisted.tls.handshakes import Handshakes

PROGRESS_INTERVAL = 2.0
"""Seconds between two log lines of a recovery under way."""


class ServedPort(NamedTuple):
    """A port for clients. listen: opens it; left_out: request codes that it doesn't serve."""

    listen: Listen
    left_out: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What a node consists of, whatever its role is.

    - role, identity: who it is
    - config: its configuration, which operators may change
    - ports: where clients come in; processors: who answers them there
    - port_options: from where they may come; connections: how many may be there
    - rejected_of_proxies: how many of proxies' were closed before it was known whose they are
    - acl: those of them that have an account; None: nobody needs one
    - entrance: what stands before the processors; states: what the audit tells of them
    - expiries: of certificates, path -> seconds since the epoch
    - page_port: what opens a port for browsers and scrapers, in a mode of TLS that it may have of its own
    - handshakes: of all ports
    - link_connecting: makes a slave's HA link
    - release_ports: gives back those claimed, for slaves too, that were never opened
    - workers: stopped last
    """

    clock: IReactorTime
    role: Role
    identity: BrokerIdentity
    config: LiveConfig[BrokerConfig]
    store: MessageStore
    last_run: LastRun
    tables: BrokerTables
    client: RemotingClient
    registration: Registration
    master: MasterAddress
    ha: HAService
    consumers: ConsumerProcessors
    pulls: PullProcessor
    hold: PullHold
    followers: TableFollowers
    new_topics: NewTopics
    consumer_admin: ConsumerAdmin
    offset_sync: OffsetSyncProcessors
    runtime: RuntimeInfo
    ranges: LogRanges
    processors: ProcessorTable
    acl: AclFiles | None
    entrance: Entrance
    states: Mapping[int, State]
    port_options: PortOptions
    connections: ConnectionBudget
    rejected_of_proxies: Callable[[], int]
    ports: Sequence[ServedPort]
    expiries: Callable[[], Mapping[str, float]]
    page_port: Callable[[Listen, TlsMode | None], Listen]
    handshakes: Callable[[], Sequence[Handshakes]]
    link_connecting: IConnecting
    release_ports: Callable[[], None]
    workers: Sequence[IWorker]


class RoleServices(Protocol):
    """What a node does in one role and in no other."""

    @property
    def processors(self) -> ProcessorTable:
        """Who answers the requests that roles treat differently."""

    def start(self) -> None:
        """The node serves in this role from now on."""

    def stop_taking(self) -> None:
        """Take nothing new from now on."""

    def stop(self) -> Deferred[Any]:
        """Finish what is under way; fires when nothing of it is open."""


class BrokerNode(Service):
    """The service. services: those of the role that `parts.role` names."""

    _logger = Logger()

    def __init__(self, parts: NodeParts, services: RoleServices) -> None:
        self.parts = parts
        signed = parts.entrance.asks_for_accounts
        self._factories = [
            RemotingServerFactory(
                ProcessorTable(), parts.clock, True, parts.port_options, parts.connections, signed
            )
            for _ in parts.ports
        ]
        self.take_role(services)
        self._stops: list[Callable[[], object]] = []
        """How to end what has been started, in the order of the start."""
        self._progress_due = 0.0
        self.recovered: RecoveryReport | None = None
        """What the start has found; None before it."""
        self.recovery_seconds = 0.0

    def take_role(self, services: RoleServices) -> None:
        """Answer as this role does, from the next request on. While the node runs, the services of the
        previous role have stopped, and the caller starts these."""
        self.services = services
        table = self.parts.processors.joined(services.processors)
        table = self.parts.entrance.protect(table, self.parts.states)
        for port, factory in zip(self.parts.ports, self._factories, strict=True):
            factory.serve(table.without(*port.left_out))

    # -- start -----------------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Recover, open, register. Raises StoreError, OSError or CannotListenError."""
        super().startService()
        parts = self.parts
        begun = parts.clock.seconds()
        self._progress_due = begun + PROGRESS_INTERVAL
        report = parts.store.load(self._progress, same_boot=parts.last_run.same_boot)
        self.recovered, self.recovery_seconds = report, parts.clock.seconds() - begun
        self._log_loaded(report)
        parts.last_run.compare(report)
        self._stops += (parts.store.stop, self._log_ended, parts.client.close)
        parts.tables.load()
        parts.store.start()
        self._start(parts.tables.start, parts.tables.stop)
        for port, factory in zip(parts.ports, self._factories, strict=True):
            self._stops.append(partial(_close, port.listen(factory), factory))
        if parts.acl is not None:
            self._start(parts.acl.start, parts.acl.stop)
        self._start(parts.runtime.start, parts.runtime.stop)
        self._start(parts.hold.start, parts.hold.stop)
        self._start(parts.followers.start, parts.followers.stop)
        self._start(parts.consumer_admin.start, parts.consumer_admin.stop)
        self._start(parts.consumers.start, parts.consumers.stop)
        self._start(parts.ha.startService, parts.ha.stopService)
        self._start(self.services.start, lambda: self.services.stop())
        self._start(parts.registration.start, parts.registration.stop)
        self._stops.append(lambda: self.services.stop_taking())
        self._log_ready()

    def _log_ready(self) -> None:
        parts = self.parts
        identity, config = parts.identity, parts.config.config
        self._logger.info(
            "ready: hatwisted {version}, {role} {id} of {name} in {cluster}, serves clients at {address}",
            event="broker.ready",
            version=__version__,
            role=config.broker_role.value,
            id=config.broker_id,
            name=identity.name,
            cluster=identity.cluster,
            address=identity.address,
        )

    def _start(self, start: Callable[[], object], stop: Callable[[], object]) -> None:
        start()
        self._stops.append(stop)

    def _log_loaded(self, report: RecoveryReport) -> None:
        store = self.parts.store
        self._logger.info(
            "store {root} loaded after {exit}: the log runs from {begin} to {end}; {records} records checked, "
            "{torn} bytes of torn tail cut, {dispatched} bytes dispatched",
            event="store.loaded",
            root=store.root,
            exit="an unclean exit" if report.unclean else "a clean exit, or none",
            begin=store.log.min_offset,
            end=report.end,
            records=report.records,
            torn=report.torn_bytes,
            dispatched=report.dispatched_bytes,
        )

    def _progress(self, done: int, total: int) -> None:
        now = self.parts.clock.seconds()
        if now >= self._progress_due:
            self._progress_due = now + PROGRESS_INTERVAL
            self._logger.info(
                "recovering: {done} of {total} MiB",
                event="store.recovering",
                done=done >> 20,
                total=total >> 20,
            )

    # -- stop ------------------------------------------------------------------------------------------------

    def _log_ended(self) -> None:
        self.parts.last_run.stop(self.parts.store.log.max_offset)

    @property
    def connections(self) -> int:
        """Clients that are connected."""
        return sum(len(factory.connections) for factory in self._factories)

    @property
    def refused_connections(self) -> int:
        """Clients that weren't let in, for any reason."""
        of_clients = sum(factory.rejected_total for factory in self._factories)
        return of_clients + self.parts.rejected_of_proxies()

    @property
    def busy_answers(self) -> int:
        """Requests answered SYSTEM_BUSY, for any reason."""
        return sum(factory.busy_total for factory in self._factories)

    @property
    def incomplete_bytes(self) -> int:
        """What connections hold of frames that haven't ended, and of requests that wait for their turn."""
        return self.parts.connections.partial.total

    @inlineCallbacks
    def stopService(self) -> Any:
        """Stop what has been started, in order; fires when the folder is as a clean exit leaves it. After a start
        that failed this ends what had been started by then."""
        super().stopService()
        while self._stops:
            stop = self._stops.pop()
            try:
                yield maybeDeferred(stop)
            except Exception:
                # What stands below it is stopped all the same: a store that stays locked is of no use.
                self._logger.failure("stopping {what} failed", what=stop)
        self.parts.release_ports()
        for worker in self.parts.workers:
            worker.stop()


def _close(port: IListeningPort, factory: RemotingServerFactory) -> Deferred[Any]:
    """Accept no more connections, and close those that are open."""
    closed: Deferred[Any] = maybeDeferred(port.stopListening)
    for connection in list(factory.connections):
        connection.close()
    return closed
