"""The accept side of the HA link: every slave that connects is fed from the one log, each at its own
position.

One log listener serves all live slaves: what an append added is framed once and the same bytes go to each. It
is installed only while a slave is live, so that a log without slaves (a slave's own log, for one) doesn't
pay for it. One timer looks after all links: heartbeats, silent slaves, the lag line in the log.

Until its first report a connection is unidentified: their number is limited, and so is how long they may stay,
because anything can connect to the port, and a RocketMQ slave itself is silent for its first five seconds.

Nor does a RocketMQ slave ever say who it is: whoever may connect is sent the log, and his acks count. So who may
is decided by his address (`haAllowList`), before a byte is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IAddress, IListeningPort, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.ha.classic import ClassicDialect
from hatwisted.ha.drain import Drain
from hatwisted.ha.framing import Framing
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.haconnection import HAConnection
from hatwisted.ha.interfaces import IHaDialect, IReplication
from hatwisted.ha.linklimits import MAX_LINKS, MAX_LINKS_OF_HOST, MAX_UNREPORTED, surplus
from hatwisted.ha.refusals import RefusalLog
from hatwisted.ha.replicas import ReplicaTable
from hatwisted.ha.settings import MasterSettings
from hatwisted.ha.slavehosts import REPORT_SLACK, SlaveHosts
from hatwisted.ha.slaveprogress import TRANSFERRING, LinkState, SlaveStatus
from hatwisted.ha.slavewatch import SlaveWatch
from hatwisted.ha.sockets import peer_names
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.timing.periodic import PeriodicCall


class HAMasterFactory(Factory):
    """Makes one HAConnection per accepted socket; a failure concerns that socket alone."""

    noisy = False
    _logger = Logger()

    def __init__(self, service: HAService) -> None:
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> HAConnection | None:
        """A link for the socket just accepted, or None, which closes it."""
        try:
            return self._service.new_connection() if self._service.admits(addr) else None
        except Exception:
            self._logger.failure("HA link from {peer} could not be set up, the socket is closed", peer=addr)
            return None


@implementer(IReplication)
class HAService(Service):
    """The master's HA service.

    - log: what is replicated
    - clock: timers of all links
    - listen: binds the HA port for a factory (`reactor.listenTCP` with the port filled in)
    - group_transfer: completes the waits that an acknowledgement covers
    - settings: time limits, sizes, what a put waits for
    - dialect: the HA protocol; None: RocketMQ 4's
    """

    _logger = Logger()
    name = "ha"

    def __init__(
        self,
        log: IReplicatedLog,
        clock: IReactorTime,
        listen: Callable[[IProtocolFactory], IListeningPort],
        group_transfer: GroupTransferService,
        settings: MasterSettings | None = None,
        dialect: IHaDialect | None = None,
    ) -> None:
        self.log = log
        self.clock = clock
        self.settings = settings or MasterSettings()
        self.dialect: IHaDialect = dialect or ClassicDialect()
        self.framing = Framing(self.dialect, log.file_size, self.settings.batch_size)
        self.group_transfer = group_transfer
        self.replicas = ReplicaTable(self.settings.in_sync_replicas)
        self.complaints = RefusalLog(clock)
        self.hosts = SlaveHosts()
        self.accepted_total = 0
        self.unidentified_total = 0
        """Connections that ended without an accepted first report."""
        self.turned_away_total = 0
        """Connections closed because of where they came from."""
        self._listen = listen
        self._port: IListeningPort | None = None
        self._links: dict[HAConnection, None] = {}
        self._unreported: dict[HAConnection, None] = {}
        self._live: dict[HAConnection, None] = {}
        self._listening_to_log = False
        self._drain: Drain | None = None
        self._hasty = False
        self._watch = SlaveWatch(clock, log, self.replicas, missed=lambda: self.settings.waits_for_slaves)
        self._look_loop = PeriodicCall(clock, "checking the slaves' links", self._look)

    # -- life ----------------------------------------------------------------------------------

    def startService(self) -> None:
        """Bind the HA port and accept slaves; raises CannotListenError if the port is taken."""
        self._port = self._listen(HAMasterFactory(self))
        super().startService()
        if self.settings.warning is not None:
            # Not `warning=`: Twisted takes that key for a Python warning.
            self._logger.warn("{line}", line=self.settings.warning)
        self._watch.start()
        self._look_loop.start(self.settings.look_interval)

    def stopService(self) -> Deferred[object]:
        """Stop accepting, close the links (what is buffered still leaves), release the puts that wait.

        Fires when all sockets are closed, within CLOSE_LINGER. Call `drain` first for an orderly stop.
        """
        super().stopService()
        self._look_loop.stop()
        self._watch.stop()
        waits = [link.closed for link in self._links]
        if self._port is not None:
            waits.append(_stop_listening(self._port))
            self._port = None
        if self._drain is not None:
            self._drain.give_up()  # before the links go: without any, nothing would seem to lack
        for link in tuple(self._links):
            link.close()
        self._stop_listening_to_log()
        return DeferredList(waits).addCallback(lambda _: self.group_transfer.stop())

    def admits(self, address: object) -> bool:
        """May a slave connect from `address`?"""
        allowed = self.settings.allowed
        host, peer = peer_names(address)
        if allowed is None or host in allowed:
            return True
        self.turned_away_total += 1
        self.complain(host, f"connection from {peer} refused, haAllowList doesn't have its address")
        return False

    def new_connection(self) -> HAConnection:
        """State for a socket just accepted."""
        return HAConnection(self)

    def drain(self, limit: float) -> Deferred[bool]:
        """Fires True once every transferring slave has acknowledged the whole log, or False after `limit`
        s."""
        if self._drain is None or self._drain.done.called:
            self._drain = Drain(self.clock, 0.0 if self._hasty else limit)
        drained = self._drain.done
        self._check_drain()
        return drained

    def hasten(self) -> None:
        """Wait for no slave's acknowledgements at the stop."""
        self._hasty = True
        if self._drain is not None:
            self._drain.give_up()

    def _check_drain(self) -> None:
        if self._drain is None:
            return
        end = self.log.max_offset
        if all(
            link.progress.ack_offset >= end for link in self._links if link.progress.state in TRANSFERRING
        ):
            self._drain.finish()

    # -- what the links tell -------------------------------------------------------------------

    def joined(self, link: HAConnection) -> None:
        """A socket was accepted."""
        self.accepted_total += 1
        self._links[link] = None
        if not self.settings.identified and not self.hosts.is_suspect(link.host):
            self.replicas.join(link.progress)
        self._unreported[link] = None
        self._limit(self._unreported, MAX_UNREPORTED, "without a first report")

    def _limit(self, links: Collection[HAConnection], most: int, what: str) -> bool:
        one_more = surplus(links, most)
        if one_more is None:
            return False
        last, held = one_more
        self.complain(last.host, f"{last.peer} closed, {held} connections {what} are too many at a time")
        self._unreported.pop(last, None)
        self.replicas.leave(last.progress)
        last.abort()
        return True

    def reported(self, link: HAConnection) -> None:
        """A link's first report was accepted."""
        del self._unreported[link]
        self._watch.came()
        self.hosts.reported(link.host)
        self.replicas.reported(link.progress, self.log.max_offset)
        if link.progress.request_offset == 0:
            self.group_transfer.skipped(link.progress.next_offset)
        self.acknowledged(link)
        reported = [each for each in self._links if each.progress.state in TRANSFERRING]
        neighbours = [each for each in reported if each.network == link.network]
        what = "that copy the log"
        self._limit(neighbours, MAX_LINKS_OF_HOST, what) or self._limit(reported, MAX_LINKS, what)

    def refused(self, link: HAConnection) -> None:
        """A link asks for an offset that the log doesn't hold: no replica, closes after a while."""
        self.replicas.leave(link.progress)
        self._unreported[link] = None
        self.live_changed(link)
        progress = link.progress
        if progress.state is LinkState.OFFSET_AHEAD:
            text = "it has bytes that this master never had, or has lost: compare the logs before letting it join"
        else:
            text = "what it lacks has expired here: empty its store, so that it copies from the start"
        asked = progress.next_offset if progress.next_offset >= 0 else progress.request_offset
        self.complaints.complain(
            f"slave at {link.host}",
            f"{link.peer} refused: it asks for offset {asked}, but the log holds "
            f"{self.log.min_offset} to {self.log.max_offset}; {text}",
            error=True,
        )

    def acknowledged(self, link: HAConnection) -> None:
        """A link's acknowledged offset has changed."""
        self.replicas.acknowledged(link.progress)
        self.group_transfer.acked(self.replicas.commit_offset(self.log.max_offset))
        if self._drain is not None:
            self._check_drain()

    def left(self, link: HAConnection, reason: Failure) -> None:
        """A link is gone."""
        self._links.pop(link, None)
        self._live.pop(link, None)
        self.replicas.leave(link.progress)
        if link in self._unreported:
            del self._unreported[link]
        if link.progress.reported:
            others = sum(1 for each in self._links if each.progress.reported)
            self._watch.left(link, reason.getErrorMessage(), others)
        else:
            self.unidentified_total += 1
            if link.progress.request_offset < 0:
                self.hosts.unidentified(link.host)
        self._check_drain()

    def complain(self, host: str, text: str) -> None:
        """Something is wrong with a peer: counted, and logged once per host and minute."""
        self.complaints.complain(host, text)

    # -- fresh bytes ---------------------------------------------------------------------------

    def live_changed(self, link: HAConnection) -> None:
        """A link became live, or stopped being so."""
        if link.progress.state is not LinkState.LIVE:
            self._live.pop(link, None)
            return
        self._live[link] = None
        if not self._listening_to_log:
            self._listening_to_log = True
            self.log.add_listener(self._appended)

    def _appended(self, start: int, blob: bytes) -> None:
        if not self._live:
            return
        framed = self.framing.frame(start, blob)
        for link in tuple(self._live):
            try:
                link.send_fresh(start, len(blob), framed)
            except Exception:
                self._broken(link)

    def _stop_listening_to_log(self) -> None:
        if self._listening_to_log:
            self._listening_to_log = False
            self.log.remove_listener(self._appended)

    # -- clock ---------------------------------------------------------------------------------

    def _look(self) -> None:
        now = self.clock.seconds()
        for link in tuple(self._links):
            self._look_at(link, now)
        self._distrust_silent_links(now)
        if not self._live:
            self._stop_listening_to_log()
        self._watch.look(now, self._links)

    def _look_at(self, link: HAConnection, now: float) -> None:
        try:
            link.look(now)
        except Exception:
            self._broken(link)

    def _broken(self, link: HAConnection) -> None:
        # A link that can't go on concerns that slave alone; it comes back with its true offset.
        self._logger.failure("HA link to {peer} failed and is closed", peer=link.peer)
        link.abort()

    def _distrust_silent_links(self, now: float) -> None:
        patience = self.settings.heartbeat_interval + REPORT_SLACK
        for link in self._unreported:
            silent = link.progress.request_offset < 0 and now - link.progress.since > patience
            if silent and not self.hosts.is_known(link.host):
                self.replicas.leave(link.progress)
                self.hosts.unidentified(link.host)

    # -- what the put path asks ----------------------------------------------------------------

    @property
    def timeout(self) -> float:
        """Seconds a put waits for its slave."""
        return self.group_transfer.timeout

    def is_slave_ok(self, end: int) -> bool:
        """May a put that ends at `end` expect an acknowledgement (B70)? With `inSyncReplicas` set,
        `refusal` has answered that before the append."""
        if self.settings.in_sync_replicas is not None:
            return True
        return self.replicas.is_slave_ok(end, self.settings.fall_behind_max)

    def refusal(self) -> str | None:
        """Why a put that waits has to be refused before it's appended (too few copies in sync), or None."""
        needed = self.settings.copies_needed
        if needed <= 1:
            return None
        count = self.in_sync_count()
        if count >= needed:
            return None
        return f"in-sync replicas not enough: {count} copies in sync, {needed} needed"

    def in_sync_count(self) -> int:
        """Copies in sync, the master's included."""
        return self.replicas.in_sync_count(self.log.max_offset, self.settings.max_gap_not_in_sync)

    def wait(self, first_end: int, last_end: int, deadline: float) -> Deferred[int]:
        """As GroupTransferService.wait; with `inSyncReplicas` = 1 the master's own copy is enough."""
        if self.settings.in_sync_replicas == 1:
            return succeed(last_end)
        return self.group_transfer.wait(first_end, last_end, deadline)

    # -- monitoring ----------------------------------------------------------------------------

    @property
    def fall_behind(self) -> int:
        """Master's end minus the highest offset any slave ever reported (bytes)."""
        return int(self.log.max_offset) - self.replicas.push2_slave_max_offset

    def figures(self) -> Mapping[str, str]:
        """Entries of the runtime info, ours: what became of the waits for slaves. One wait stands for the puts
        of one read."""
        return {
            "slaveWaitsOpen": str(len(self.group_transfer)),
            "slaveWaitsExpired": str(self.group_transfer.expired_total),
            "slaveWaitsRefused": str(self.group_transfer.overflow_total),
            "slaveFallBehindBytes": str(self.fall_behind),
        }

    def slave_hosts(self) -> list[str]:
        """Hosts of the slaves that are linked, one for each link."""
        return [link.host for link in self._links if link.progress.reported]

    def acked_from(self, host: str) -> int | None:
        """The least offset acknowledged by slaves linked from `host`, -1 by one yet to report; None: no links."""
        return min((link.progress.ack_offset for link in self._links if link.host == host), default=None)

    def status(self) -> list[SlaveStatus]:
        """All links, oldest first; those before their first report have offsets of -1."""
        end = self.log.max_offset
        return [
            SlaveStatus(
                address=link.peer,
                name=link.name,
                state=link.progress.state.value,
                since=link.progress.since,
                ack_offset=link.progress.ack_offset,
                sent_offset=link.progress.next_offset,
                lag_bytes=end - max(link.progress.ack_offset, 0),
                last_report=link.last_read,
                last_write=link.last_write,
                sent_per_second=link.sent.per_second,
            )
            for link in self._links
        ]


def _stop_listening(port: IListeningPort) -> Deferred[None]:
    stopping: Deferred[None] | None = port.stopListening()
    return succeed(None) if stopping is None else stopping
