"""The name server as a Twisted service: a port, the route table behind it, the scan for silent brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IListeningPort, IReactorTime
from twisted.logger import Logger

from hatwisted.acl.aclfiles import AclFiles
from hatwisted.acl.audittrail import audit_edited
from hatwisted.acl.changes import NAME_SERVER_CHANGES
from hatwisted.acl.entrance import Entrance, EntranceOptions
from hatwisted.config.changing import NAMESRV_EFFECTIVE
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import NamesrvConfig
from hatwisted.config.tlskeys import TlsMode
from hatwisted.namesrv.auditedroutes import audited_states
from hatwisted.namesrv.kvconfig import KvConfig
from hatwisted.namesrv.largeregistrations import LargeRegistrations
from hatwisted.namesrv.processors import NameServerProcessors
from hatwisted.namesrv.routeinfo import RouteTable
from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.interfaces import Listen
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.requestcounts import RequestCounts
from hatwisted.remoting.server import RemotingConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.store.disk.configfile import ConfigFile, written
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.tls.handshakes import Handshakes

EXPIRY_SCAN_INTERVAL = 10.0
"""Seconds between looks for brokers whose lease has run out (4.9.7: 10 s)."""

DEFAULT_PORT = 9876


class NameServerPort(NamedTuple):
    """Where a name server serves.

    - listen: opens it
    - release: gives it back if it was claimed and never opened
    - budget: of the process's connections; None: it has one of its own
    - options: who may connect
    - entrance: what they may ask
    - expiries: of certificates, path -> seconds since the epoch
    - page_port: what opens a port of figures, in a mode of TLS that it may have of its own
    - handshakes: of all ports
    - rejected_of_proxies: how many of proxies' connections were closed before it was known whose they are
    """

    listen: Listen
    release: Callable[[], None] = lambda: None
    budget: ConnectionBudget | None = None
    options: PortOptions = PortOptions()
    entrance: EntranceOptions = EntranceOptions()
    expiries: Callable[[], Mapping[str, float]] = dict
    page_port: Callable[[Listen, TlsMode | None], Listen] = lambda listen, _: listen
    handshakes: Callable[[], Sequence[Handshakes]] = list
    rejected_of_proxies: Callable[[], int] = int


class NameServerService(Service):
    """Listens as long as it runs; `address` tells where.

    - config: its configuration
    - clock: for leases
    - fs: where the settings lie
    - worker: writes them
    - port: where it serves
    - acl: whom; None: everybody
    """

    name = "namesrv"
    _log = Logger()

    def __init__(
        self,
        config: NamesrvConfig,
        clock: IReactorTime,
        fs: IFileSystem,
        worker: IWorker,
        port: NameServerPort,
        acl: AclFiles | None = None,
    ) -> None:
        self.routes = RouteTable(clock)
        self.settings = KvConfig()
        self.config = LiveConfig(config)
        self.table = ProcessorTable()
        """Who answers what; add handlers before the service starts."""
        self._worker = worker
        self.port = port
        self.requests = RequestCounts()
        self.connection_budget = port.budget or ConnectionBudget()
        self._entrance = Entrance(
            NAME_SERVER_CHANGES,
            None if acl is None else lambda: acl.accounts,
            clock,
            port.entrance,
        )
        self._acl = acl
        # A name server is sent no messages: whole requests cost it nothing.
        self._factory = RemotingServerFactory(self.table, clock, False, port.options, self.connection_budget)
        self._listening: IListeningPort | None = None
        settings_file = ConfigFile(fs, config.kv_config_path, worker, self.settings.encode)
        self.settings.on_change(settings_file.save)
        self._files = {settings_file: self.settings.decode}
        self._fs = fs
        self._config_file: ConfigFile | None = None
        if config.config_store_path is not None:
            file = ConfigFile(fs, config.config_store_path, worker, self.config.file_bytes)
            self.config.on_update(file.save)
            self._files[file] = self.config.take_file
            self._config_file = file
        saved = partial(written, tuple(self._files))
        self.large = LargeRegistrations(clock)
        self._processors = NameServerProcessors(self.routes, self.settings, self.config, saved, self.large)
        self._processors.register_on(self.table)
        self._scan = PeriodicCall(clock, "scanning for silent brokers", self._expire)

    @property
    def address(self) -> str:
        """ "host:port" that is listened on."""
        assert self._listening is not None, "not started"
        here = self._listening.getHost()
        return f"{here.host}:{here.port}"  # type: ignore[attr-defined]

    @property
    def connections(self) -> int:
        """Clients that are connected."""
        return len(self._factory.connections)

    @property
    def refused_connections(self) -> int:
        """Clients that weren't let in, for any reason."""
        return self._factory.rejected_total + self.port.rejected_of_proxies()

    @property
    def refused_requests(self) -> dict[str, int]:
        """Why requests weren't served -> how many weren't."""
        return self._entrance.refused

    @property
    def busy_answers(self) -> int:
        """Requests answered SYSTEM_BUSY, for any reason."""
        return self._factory.busy_total

    @property
    def bad_requests(self) -> int:
        """Requests that couldn't be read, were for more than there may be, or about somebody else's broker."""
        return self._processors.bad_total

    @property
    def incomplete_bytes(self) -> int:
        """What connections hold of requests that haven't come whole, or wait for their turn."""
        return self._factory.partial.total

    def reread(self, before: NamesrvConfig, now: NamesrvConfig) -> None:
        """The configuration has been read again. before: what the last reading gave; now: what this one gives."""
        what = self.config.take_reread(self._take_edited_file, before, now, NAMESRV_EFFECTIVE)
        audit_edited("config.reread", what.before, what.after, waiting=what.waiting)
        self._log.info("configuration read again: {what}", event="config.reread", what=what)

    def _take_edited_file(self) -> None:
        file = self._config_file
        if file is not None and self._fs.exists(file.path) and not file.unwritten:
            self.config.take_edited_file(self._fs.read(file.path))

    def privilegedStartService(self) -> None:
        """Bind the port, so that a port in use is reported before the process leaves the foreground."""
        if self._listening is None:
            states = audited_states(self.routes, self.settings, self.config)
            self._factory.serve(self.requests.follow(self._entrance.protect(self.table, states)))
            self._listening = self.port.listen(self._factory)

    def startService(self) -> None:
        super().startService()
        for file, decode in self._files.items():
            file.load(decode)
        self.privilegedStartService()
        if self._acl is not None:
            self._acl.start()
        self._scan.start(EXPIRY_SCAN_INTERVAL)
        self._log.info("name server on {address}", event="namesrv.ready", address=self.address)

    def stopService(self) -> Deferred[None]:
        """Stop listening, close the connections, write the settings; fires when that is done. After a start that
        failed this ends what had been started by then."""
        super().stopService()
        self._scan.stop()
        if self._acl is not None:
            self._acl.stop()
        waits = [file.flush() for file in self._files]
        if self._listening is not None:
            stopping = self._listening.stopListening()
            if stopping is not None:
                waits.append(stopping)
            self._listening = None
        for connection in list(self._factory.connections):
            connection.close()
        return DeferredList(waits).addCallback(lambda _: self._stopped())

    def _stopped(self) -> None:
        self.port.release()
        self._worker.stop()

    def _expire(self) -> None:
        for connection in self.routes.expire():
            assert isinstance(connection, RemotingConnection)
            connection.abort()
