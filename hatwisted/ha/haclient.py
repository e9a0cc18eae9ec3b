"""One connection to the master: bytes in, appends and acknowledgements out.

Two clocks, as two different things can be late: the last report sent drives the idle report, the last byte
received drives housekeeping (RocketMQ 4.x has one, set by its own writes, and never notices a silent master).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any
from typing import Protocol as Shape

from twisted.internet import tcp
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.ha.errors import FrameMismatch
from hatwisted.ha.events import Frames, Opened, SlaveLinkEvent
from hatwisted.ha.firstsync import JoinPlan
from hatwisted.ha.framecheck import FrameCheck
from hatwisted.ha.interfaces import FlushNow, IHaDialect
from hatwisted.ha.overlap import Overlap
from hatwisted.ha.settings import SlaveSettings
from hatwisted.ha.slavestate import SlaveEvent
from hatwisted.ha.sockets import CLOSE_LINGER, peer_names, socket_below, tune
from hatwisted.ha.transferrate import TransferRate
from hatwisted.remoting.eagerwrite import write_now
from hatwisted.store.errors import OffsetGap, StoreError, StoreFull
from hatwisted.store.interfaces import Buffer, IReplicatedLog
from hatwisted.wire.haframe import Frame, HaAck, HaProtocolError

LIVE_READ = 64 << 10
"""Bytes asked of one socket read while little comes."""

BULK_READ = 2 << 20
"""Bytes asked of one read while reads come back full: a read's turn, append and report are shared by as many, and
they take about 1 ms. Not always: asking for that much costs more per read than asking for 64 KiB, which a put that
waits for our report would pay."""

BULK_READ_OF_TLS = 256 << 10
"""The same of an encrypted link, whose records are decrypted one by one and joined again: by the mebibyte, that
takes twice as long."""

REST = 3.0
"""Seconds without a full read after which a link rests: what its large reads took goes back to the system then,
and not while reads come back full now and then."""


class LinkOwner(Shape):
    """What a link needs of the service it belongs to, and reports to it."""

    log: IReplicatedLog
    clock: IReactorTime
    settings: SlaveSettings
    dialect: IHaDialect
    flush_now: FlushNow | None

    def connected(self, link: HAClient) -> None:
        """A connection is made."""

    def accepted(self) -> None:
        """Its first frame fits the log."""

    def copying(self, link: HAClient, start: int) -> None:
        """Its first bytes of log are stored, at offset `start`."""

    def mismatch(self, link: HAClient, error: FrameMismatch) -> None:
        """A frame doesn't continue the log."""

    def store_full(self, link: HAClient, reason: str) -> None:
        """The store has no room."""

    def store_failed(self, link: HAClient, reason: str) -> None:
        """The store couldn't write or sync."""

    def proved(self) -> None:
        """The master's log holds what ours ends with."""

    def fitted(self) -> None:
        """The link `fits` from now on."""

    def rested(self) -> None:
        """A link has copied much, and does so no more."""

    def fail(self, link: HAClient, event: SlaveEvent, text: str) -> None:
        """The link has to be given up.

        - link: which
        - event: why
        - text: why, for people
        """

    def lost(self, link: HAClient, reason: Failure) -> None:
        """The connection is gone."""


class HAClientFactory(ClientFactory):
    """Makes the one link of a service."""

    noisy = False

    def __init__(self, service: LinkOwner) -> None:
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> HAClient:
        """The protocol for a new connection to the master."""
        return HAClient(self._service)


@implementer(IPushProducer)
class HAClient(Protocol):
    """The slave's end of the link."""

    def __init__(self, service: LinkOwner) -> None:
        now = service.clock.seconds()
        self._service = service
        self._log = service.log
        self._receiver = service.dialect.frame_receiver()
        self._durable = service.settings.ack is HaAck.DURABLE
        self._flushing = False
        self._registered = False
        self._closer: IDelayedCall | None = None
        self.peer = "not connected"
        self.plan: JoinPlan | None = None
        """What was reported first; None before that."""
        self.frame_check: FrameCheck | None = None
        self._overlap: Overlap | None = None
        """What has to be compared before our log may be acknowledged; None once it is."""
        self.reported = -1
        """Newest offset reported; only rises."""
        self.told = False
        """Has a report left in the call that wrote it? On a link that is lost already none does."""
        self.got_bytes = False
        self.failed = False
        """Given up: what still arrives is dropped."""
        self.begun_at = self.last_read = self.last_report = now
        self._socket: tcp.Connection | None = None
        self._last_full: float | None = None
        """When a read last came back full; None if none did since the link last rested."""
        self.received = TransferRate(now)
        """Bytes read, frame headers included."""
        self.closed: Deferred[None] = Deferred()
        """Fires when the connection is gone."""

    @property
    def progressed(self) -> bool:
        """Has a frame of this link been taken, and was nothing of our log left to compare?"""
        return self._overlap is None and self.frame_check is not None and self.frame_check.accepted

    @property
    def fits(self) -> bool:
        """Is nothing of our log left to compare with what the master has?"""
        return self.plan is not None and self._overlap is None and not self.failed

    # -- life ----------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """Connected; once the link is open, the service says when to begin."""
        transport: Any = self.transport
        _, self.peer = peer_names(transport.getPeer())
        self.begun_at = self.last_read = self.last_report = self._service.clock.seconds()
        tune(transport, self._service.settings.sockets)
        self._socket = socket_below(transport)
        transport.registerProducer(self, True)
        self._registered = True
        self._take(self._receiver.opening())

    def begin(self, plan: JoinPlan) -> None:
        """Report where to start, at once (B157)."""
        self.plan = plan
        self.frame_check = FrameCheck(plan, self._log.file_size)
        if plan.held > plan.report:
            self._overlap = Overlap(self._log, plan.held)
        self.begun_at = self._service.clock.seconds()
        self._report(plan.report)
        if self._overlap is None:
            self._service.fitted()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The link is gone; half a frame in the receiver goes with it."""
        if self._closer is not None:
            self._closer.cancel()
            self._closer = None
        self._registered = False
        self._service.lost(self, reason)
        self.failed = True
        self._rest()
        self.closed.callback(None)

    def close(self) -> None:
        """Send what is buffered, then close; a master that doesn't take it is cut off after CLOSE_LINGER."""
        transport: Any = self.transport
        self.failed = True
        if self._registered:
            self._registered = False
            transport.unregisterProducer()
        transport.loseConnection()
        self._closer = self._service.clock.callLater(CLOSE_LINGER, self._cut)

    def _cut(self) -> None:
        self._closer = None
        self.abort()

    def abort(self) -> None:
        """Drop the link at once."""
        transport: Any = self.transport
        self.failed = True
        transport.abortConnection()

    # -- frames in -----------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """All whole frames of one read: one append, one acknowledgement."""
        if self.failed:
            return
        self.last_read = self._service.clock.seconds()
        self.received.total += len(data)
        self._adapt_read_size(len(data))
        service = self._service
        try:
            self._take(self._receiver.receive(data))
        except FrameMismatch as error:
            service.mismatch(self, error)
        except HaProtocolError as error:
            service.fail(self, SlaveEvent.LOSE, f"the master broke the HA link's format: {error}")
        except OffsetGap as error:
            service.fail(self, SlaveEvent.MISMATCH, f"our own log refused the position: {error}")
        except StoreFull as error:
            service.store_full(self, str(error))
        except (StoreError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                service.store_full(self, str(error))
            else:
                service.store_failed(self, str(error))

    def _take(self, events: Sequence[SlaveLinkEvent]) -> None:
        for event in events:
            if isinstance(event, Frames):
                if self.frame_check is None:
                    raise HaProtocolError("the master sent data before our first report")
                self._store(self.frame_check, event.frames)
            elif isinstance(event, Opened):
                self._service.connected(self)
            else:
                transport: Any = self.transport
                write_now(transport, event.data)

    def _store(self, frame_check: FrameCheck, frames: Sequence[Frame]) -> None:
        first = not frame_check.accepted
        start, bodies, mismatch = frame_check.take(frames)
        if first and frame_check.accepted:
            self._service.accepted()
        if bodies and self._overlap is not None:
            start, bodies = self._compared(self._overlap, start, bodies)
        if bodies:
            self._log.append_raw(start, bodies)
            if not self.got_bytes:
                self.got_bytes = True
                self._service.copying(self, start)
        if self._overlap is None and self._log.max_offset > self.reported and self.got_bytes:
            self._acknowledge()
        if mismatch is not None:
            raise mismatch
        if self._receiver.pending_header is not None:
            frame_check.check(*self._receiver.pending_header)

    def _compared(self, overlap: Overlap, start: int, bodies: list[Buffer]) -> tuple[int, list[Buffer]]:
        """What is new to us. With the overlap's last byte our whole log may be acknowledged."""
        start, bodies = overlap.strip(start, bodies)
        self.got_bytes = True
        if start >= overlap.end:
            self._overlap = None
            self._service.proved()
            self._service.fitted()
        return start, bodies

    def _adapt_read_size(self, size: int) -> None:
        socket = self._socket
        if socket is None:
            return
        plain = socket is self.transport
        # Of a read that came back full, TLS may keep a record that has yet to be completed.
        if size >= (socket.bufferSize if plain else socket.bufferSize * 3 // 4):
            socket.bufferSize = BULK_READ if plain else BULK_READ_OF_TLS
            self._last_full = self.last_read
        elif size < LIVE_READ:
            socket.bufferSize = LIVE_READ

    # -- reports out ---------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        if not self._durable:
            self._report(self._log.max_offset)
        elif not self._flushing:
            self._flush()

    def _flush(self) -> None:
        flush_now = self._service.flush_now
        assert flush_now is not None
        self._flushing = True
        target = self._log.max_offset
        flushed = maybeDeferred(flush_now)
        flushed.addCallbacks(self._flushed, self._flush_failed, callbackArgs=(target,))

    def _flushed(self, _: object, target: int) -> None:
        self._flushing = False
        if self.failed:
            return
        flushed = self._log.flushed_offset
        if flushed < target:
            self._service.store_failed(self, f"the log is flushed only to {flushed} of {target}")
            return
        self._report(flushed)
        if self._log.max_offset > flushed:
            self._flush()

    def _flush_failed(self, failure: Failure) -> None:
        self._flushing = False
        self._service.store_failed(self, f"flush failed: {failure.getErrorMessage()}")

    def _report(self, offset: int) -> None:
        transport: Any = self.transport
        self.reported = offset
        self.last_report = self._service.clock.seconds()
        waiting = write_now(transport, self._service.dialect.encode_report(offset))
        if not waiting:
            self.told = True

    def pauseProducing(self) -> None:
        """64 KiB and more of unread 8-byte reports: the master sends but doesn't read (B56)."""
        self._service.fail(self, SlaveEvent.LOSE, "the master isn't reading our reports")

    def resumeProducing(self) -> None:
        """Nothing waits to be sent."""

    def stopProducing(self) -> None:
        """The transport is going away; connectionLost does the rest."""

    # -- clock ---------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Once a second: drop a silent master, repeat the last report on an idle link."""
        self.received.sample(now)
        if self._last_full is not None and now - self._last_full >= REST:
            self._rest()
        times = self._service.settings
        silent = now - self.last_read
        if silent > times.housekeeping_interval:
            self._service.fail(self, SlaveEvent.LOSE, f"nothing heard from the master for {silent:.1f} s")
        elif self.plan is not None and not self.failed and now - self.last_report > times.heartbeat_interval:
            self._report(self.reported)

    def _rest(self) -> None:
        """Copy no more: what large reads took, if there were some, isn't needed."""
        if self._last_full is not None:
            self._last_full = None
            self._service.rested()
