"""The seams of the HA link.

A *dialect* is how offsets, log bytes and heartbeats look on the wire. `hatwisted.ha.classic` speaks RocketMQ
4.x's; the autoswitch dialect of RocketMQ 5 (epochs, and a handshake first) is the second that this seam is
meant for: a receiver keeps what it learns from a handshake to itself, and the encoders belong to the dialect
object, because what one append sends is the same for every caught-up slave and is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from hatwisted.ha.events import MasterEvent, SlaveLinkEvent
from hatwisted.store.interfaces import Buffer

FlushNow = Callable[[], "Deferred[int]"]
"""Syncs a log; fires once `flushed_offset` tells how far that went."""

Objection = Callable[[], "Deferred[str | None]"]
"""Why a master can't be copied, asked of it; None: nothing speaks against it."""


class IMasterLog(Interface):
    """The master's log, asked about outside of the HA link."""

    def bounds() -> Deferred[tuple[int, int]]:
        """(commitLogMinOffset, commitLogMaxOffset); may fail."""


class IReportReceiver(Interface):
    """The master's side of one link: bytes from a slave in, events out. No I/O."""

    def receive(data: bytes) -> Sequence[MasterEvent]:
        """What has arrived means, in order; of several reports the newest is enough. Raises HaProtocolError."""


class IFrameReceiver(Interface):
    """The slave's side of one link: bytes from a master in, events out. No I/O."""

    pending_header = Attribute(
        "tuple[int, int] | None: offset and size of a frame whose body is still incomplete"
    )

    def opening() -> Sequence[SlaveLinkEvent]:
        """The connection is made: a dialect with a handshake begins it, one without is open."""

    def receive(data: bytes) -> Sequence[SlaveLinkEvent]:
        """What has arrived means, in order; once the link is open there are Frames for each read. Raises
        HaProtocolError. Bodies are views: valid as long as they are held, and holding all the data that came with
        them in memory."""


class IHaDialect(Interface):
    """How master and slave talk to each other."""

    max_body = Attribute("int: most body bytes that a slave of this dialect can take in one frame")

    def report_receiver() -> IReportReceiver:
        """State for the master side of a new link."""

    def frame_receiver() -> IFrameReceiver:
        """State for the slave side of a new link."""

    def encode_report(offset: int) -> bytes:
        """Slave to master: where to start, or stored up to here."""

    def encode_frames(start: int, body: Buffer, batch_size: int) -> Sequence[Buffer]:
        """Master to slave: log bytes as buffers to be sent in order.

        - start: their offset
        - body: the bytes, all of one log file
        - batch_size: body bytes of a frame at most
        """

    def encode_heads(start: int, size: int, batch_size: int) -> Sequence[tuple[bytes, int]]:
        """The same frames of log bytes that aren't at hand: what comes before each body, and the body's size.

        - start: their offset
        - size: how many, all of one log file
        - batch_size: body bytes of a frame at most
        """

    def encode_heartbeat(offset: int) -> bytes:
        """Master to slave: still here, `offset` is what comes next."""


class IReplication(Interface):
    """What the put path asks of the HA service of a SYNC_MASTER."""

    timeout = Attribute("float: seconds a put waits for its slave")
    fall_behind = Attribute("int: bytes of the log that no slave has acknowledged")

    def is_slave_ok(end: int) -> bool:
        """May a put that ends at `end` expect an ack: a live slave, not too far behind (B70)?"""

    def refusal() -> str | None:
        """Why puts that wait have to be refused before the append (too few in-sync replicas), or None."""

    def wait(first: int, last: int, deadline: float) -> Deferred[int]:
        """A Deferred with the replicated offset.

        - first: fires once this offset is replicated
        - last: end of the last put that waits
        - deadline: clock seconds at which it fires in any case
        """
