"""One slave's link, seen from the master: a read side (reports) and a write side (frames), both on one
socket.

The write side has two modes. A *live* slave is handed the fresh bytes of every append, already framed, the
very bytes object that the other live slaves get. One that lags is fed from the log as a push producer: straight
from the log's files (`filesend`) where the transport is a plain socket, in big chunks that are read where bytes
have to be encrypted first. It pauses when the socket takes no more, or has been given SEND_CHUNK in this turn,
and is resumed when that is writable again. So a slow slave costs part of a frame or one chunk, a stuck one no
more than HA_WRITE_WINDOW, and its bytes wait in the log, where they are anyway. Switching never loses or repeats
a byte: both modes advance the one send position, which asserts that each piece begins where the last one ended.

Rejected: a queue of frames per slave (memory grows with the lag), and reading the log for live slaves as well
(RocketMQ's way; a pread per slave and append, for bytes that are still at hand).
"""

from __future__ import annotations

from typing import Any
from typing import Protocol as Shape

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.ha.events import FirstReport, MasterEvent, Report
from hatwisted.ha.filesend import send_frames
from hatwisted.ha.framing import Framing
from hatwisted.ha.interfaces import IHaDialect
from hatwisted.ha.refusals import RefusalLog
from hatwisted.ha.settings import MasterSettings
from hatwisted.ha.slaveprogress import REFUSED, TRANSFERRING, LinkState, SendProgress
from hatwisted.ha.sockets import CLOSE_LINGER, certified_name, peer_names, socket_below, tune
from hatwisted.ha.transferrate import TransferRate
from hatwisted.remoting.eagerwrite import outlet, resume_when_writable, write_now
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IReplicatedLog, Outlet
from hatwisted.wire.haframe import HaProtocolError
from hatwisted.wire.networks import counted_as

CATCH_UP_CHUNK = 256 << 10
"""Bytes read from the log at once for a lagging slave, and of a frame that is sent from its file. Enough for the
read to cost nothing beside sending, and for every copy on the way to the socket to stay in the processor's cache:
with 1 MiB it took twice the time."""

EAGER_SIZE = 64 << 10
"""Bytes up to which the rest of a catch-up is read and written in this very turn (the last stretch before going
live). A longer one goes through the reactor, or a fast slave's catch-up would keep everybody else waiting."""

HA_WRITE_WINDOW = 1 << 20
"""Bytes of fresh appends that wait for a full transport buffer (64 KiB) to drain before the slave counts as
lagging."""

SEND_CHUNK = 512 << 10
"""Bytes offered to the kernel in one turn of the reactor, which takes 0.2 ms: a catch-up chunk with the heads of
its frames, for which Twisted's 128 KiB means three turns, or what goes there from the log's file."""

GLANCE = 1.0
"""Seconds: who leaves sooner, without a word, wanted to know whether somebody listens."""

REFUSED_LINGER = 5.0
"""Seconds a slave whose offset the log lacks is kept before it gets its answer and is closed. RocketMQ's
slave re-dials at once, so this sets the pace of its retries; it's as long as the wait before its own first
report."""


class LinkOwner(Shape):
    """What a link needs of the HA service it belongs to, and reports to it."""

    log: IReplicatedLog
    clock: IReactorTime
    settings: MasterSettings
    dialect: IHaDialect
    framing: Framing
    complaints: RefusalLog

    def joined(self, link: HAConnection) -> None:
        """A socket was accepted."""

    def reported(self, link: HAConnection) -> None:
        """Its first report was accepted."""

    def refused(self, link: HAConnection) -> None:
        """It asks for an offset that the log doesn't hold: it closes after a while."""

    def acknowledged(self, link: HAConnection) -> None:
        """Its acknowledged offset has changed."""

    def live_changed(self, link: HAConnection) -> None:
        """It became live, or stopped being so."""

    def left(self, link: HAConnection, reason: Failure) -> None:
        """It is gone."""

    def complain(self, host: str, text: str) -> None:
        """Something is wrong with a peer."""


@implementer(IPushProducer)
class HAConnection(Protocol):
    """A link to one slave."""

    _log = Logger()

    def __init__(self, service: LinkOwner) -> None:
        now = service.clock.seconds()
        self._service = service
        self._receiver = service.dialect.report_receiver()
        self._paused = False
        self._direct = True  # until the log's files turn out to be none that can be sent from
        self._window_used = 0  # bytes written while paused: at most HA_WRITE_WINDOW and one append
        self._registered = False
        self._timer: IDelayedCall | None = None
        self.progress = SendProgress(now)
        self._heard = False
        self.peer = "not connected"
        self.host = self.network = ""
        self.name: str | None = None
        """Whom its certificate names, once it has reported."""
        self.last_read = now
        self.last_write = now
        self.sent = TransferRate(now)
        """Bytes of frames given to the transport."""
        self.closed: Deferred[None] = Deferred()
        """Fires when the connection is gone."""

    # -- life ----------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """Accepted: nothing is sent before the first report."""
        transport: Any = self.transport
        self.host, self.peer = peer_names(transport.getPeer())
        self.network = counted_as(self.host)
        self.last_read = self.last_write = self._service.clock.seconds()
        tune(transport, self._service.settings.sockets)
        below: Any = socket_below(transport)
        if below is not None:
            below.SEND_LIMIT = SEND_CHUNK
        transport.registerProducer(self, True)
        self._registered = True
        self._service.joined(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The link is gone: it leaves every list, once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._registered = False
        if self.progress.state is LinkState.AWAITING_REPORT and not self._was_a_glance():
            self._service.complain(self.host, f"{self.peer} left without a report")
        self._leave()
        self._service.left(self, reason)
        self.closed.callback(None)

    def _was_a_glance(self) -> bool:
        """Did the peer only look whether the port is open, as our own commands and load balancers do?"""
        return not self._heard and self._service.clock.seconds() - self.progress.since < GLANCE

    def close(self) -> None:
        """Send what is buffered, then close; a peer that doesn't take it is reset after CLOSE_LINGER."""
        transport: Any = self.transport
        self._leave()
        if self._registered:
            self._registered = False
            transport.unregisterProducer()
        transport.loseConnection()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._service.clock.callLater(CLOSE_LINGER, self._reset)

    def abort(self) -> None:
        """Drop the link and whatever it still held."""
        transport: Any = self.transport
        self._leave()
        transport.abortConnection()

    def _reset(self) -> None:
        self._timer = None
        self.abort()

    def _leave(self) -> None:
        if self.progress.state is not LinkState.CLOSED:
            self.progress.move(LinkState.CLOSED, self._service.clock.seconds())
            self._service.live_changed(self)

    # -- read side -----------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Reports: of all that has arrived, the newest whole one counts."""
        state = self.progress.state
        if state in REFUSED or state is LinkState.CLOSED:
            return
        self._heard, now = True, self._service.clock.seconds()
        try:
            for event in self._receiver.receive(data):
                self.last_read = now  # not by less than a report: a trickle would keep the link for ever
                self._take(event)
        except HaProtocolError as error:
            self._service.complain(self.host, f"{self.peer} closed, {error}")
            self.abort()

    def _take(self, event: MasterEvent) -> None:
        if isinstance(event, Report):
            self.progress.acknowledge(event.offset)
            self._service.acknowledged(self)
        elif isinstance(event, FirstReport):
            self._first_report(event.offset)
        else:
            write_now(self._transport, event.data)

    def _first_report(self, offset: int) -> None:
        service = self._service
        self.name = certified_name(self.transport)
        self.progress.first_report(offset, service.log, service.settings.first_sync, self.last_read)
        if self.progress.state in REFUSED:
            self._refuse()
            return
        service.reported(self)
        self._log.info(
            "slave {peer} joined at offset {offset}; sending it the log from {start} ({lag} bytes)",
            peer=self.peer if self.name is None else f"{self.peer}, {self.name!a},",
            offset=offset,
            start=self.progress.next_offset,
            lag=service.log.max_offset - self.progress.next_offset,
        )
        self._beat_if_due(self.last_read)
        self._feed()

    def _refuse(self) -> None:
        self._service.refused(self)
        self._service.complaints.reports[self.progress.state.value] += 1
        self._timer = self._service.clock.callLater(REFUSED_LINGER, self._log_refusal)

    def _log_refusal(self) -> None:
        self._timer = None
        # A heartbeat at another offset than the slave's own is the only "no" on this wire: every slave takes
        # it for a mismatch, names both offsets in its log and closes.
        log = self._service.log
        nearest = log.min_offset if self.progress.state is LinkState.OFFSET_EXPIRED else log.max_offset
        write_now(self._transport, self._service.dialect.encode_heartbeat(nearest))
        self.close()

    # -- write side ----------------------------------------------------------------------------

    @property
    def _transport(self) -> Any:
        return self.transport

    def send_fresh(self, start: int, size: int, framed: bytes) -> None:
        """Send log bytes that were just appended, to a live slave.

        - start: their offset
        - size: how many
        - framed: the same as frames
        """
        if self._paused and self._window_used + len(framed) > HA_WRITE_WINDOW:
            self._fall_behind()
            return
        self._count(start, size, len(framed))
        if self._paused:
            self._window_used += len(framed)
            self._transport.write(framed)
        else:
            write_now(self._transport, framed)

    def _fall_behind(self) -> None:
        self.progress.move(LinkState.CATCH_UP, self._service.clock.seconds())
        self._service.live_changed(self)

    def _feed(self) -> None:
        """Lagging slave: send from the log until the transport has enough or the slave is live."""
        log, progress = self._service.log, self.progress
        while not self._paused and progress.state is LinkState.CATCH_UP:
            start = progress.next_offset
            lag = log.max_offset - start
            if lag <= 0:
                self._go_live()
                return
            socket = outlet(self._transport) if self._direct and lag > EAGER_SIZE else None
            try:
                if socket is None:
                    self._send_copied(start)
                else:
                    room = log.file_size - start % log.file_size
                    self._send_files(socket, start, min(lag, room, SEND_CHUNK))
            except LookupError:
                self._expired()
                return
            except (OSError, StoreError) as error:
                text = f"{self.peer} closed, the log can't be read at offset {start}: {error}"
                self._service.complain(self.host, text)
                self.abort()
                return

    def _send_copied(self, start: int) -> None:
        """One chunk.

        start: offset of its first byte
        """
        chunk = self._service.log.read(start, CATCH_UP_CHUNK)
        if not chunk:
            raise StoreError("its file ends there")
        framed = self._service.framing.frame(start, chunk)
        self._count(start, len(chunk), len(framed))
        if len(framed) > EAGER_SIZE:
            self._transport.write(framed)
        else:
            write_now(self._transport, framed)

    def _send_files(self, socket: Outlet, start: int, size: int) -> None:
        """As many frames as the socket takes now. More when it's writable again, even if it has taken all of
        them: others have their turn meanwhile.

        - socket: the transport's, which has nothing to write
        - start: offset of the first byte
        - size: bytes at most, all of one file
        """
        heads = self._service.framing.heads(start, size, CATCH_UP_CHUNK)
        sent = send_frames(socket, self._service.log, start, heads)
        self._direct = not sent.failed
        self._count(start, sent.size, sent.framed)
        self._paused = True
        self._window_used = 0
        self._transport.write(sent.rest)
        resume_when_writable(self._transport)

    def _count(self, start: int, size: int, framed: int) -> None:
        """Bytes were given to the transport.

        - start, size: which ones of the log
        - framed: how many that were with heads
        """
        self.progress.sent(start, size)
        self.sent.total += framed
        self.last_write = self._service.clock.seconds()

    def _go_live(self) -> None:
        end = self._service.log.max_offset
        assert self.progress.next_offset == end, (
            f"no bytes at {self.progress.next_offset}, yet {end} is the end"
        )
        self.progress.move(LinkState.LIVE, self._service.clock.seconds())
        self._service.live_changed(self)

    def _expired(self) -> None:
        self.progress.move(LinkState.OFFSET_EXPIRED, self._service.clock.seconds())
        self._refuse()

    def pauseProducing(self) -> None:
        """The transport's buffer is full. Twisted says so at every write while it is."""
        if not self._paused:
            self._paused = True
            self._window_used = 0

    def resumeProducing(self) -> None:
        """The transport's buffer has drained."""
        self._paused = False
        self.last_write = self._service.clock.seconds()
        self._feed()

    def stopProducing(self) -> None:
        """The transport is going away; connectionLost does the rest."""
        self._paused = True

    # -- clock ---------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Once a second: heartbeat if nothing was written for long, drop the link if nothing was read."""
        self.sent.sample(now)
        if self.progress.state is LinkState.CLOSED:
            return
        # Bytes before the first report don't count: a trickle of them would keep the connection open for ever.
        unidentified = self.progress.state is LinkState.AWAITING_REPORT
        silent = now - (self.progress.since if unidentified else self.last_read)
        if silent > self._service.settings.housekeeping_interval and self.progress.state not in REFUSED:
            self._service.complain(self.host, f"{self.peer} closed, no report for {silent:.1f} s")
            self.abort()
            return
        self._beat_if_due(now)

    def _beat_if_due(self, now: float) -> None:
        if (
            not self._paused
            and self.progress.state in TRANSFERRING
            and now - self.last_write > self._service.settings.heartbeat_interval
        ):
            self.last_write = now
            heartbeat = self._service.dialect.encode_heartbeat(self.progress.next_offset)
            self.sent.total += len(heartbeat)
            write_now(self._transport, heartbeat)
