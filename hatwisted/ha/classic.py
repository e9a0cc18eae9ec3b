"""RocketMQ 4.x's HA dialect (5.x without controller mode speaks it as well): no handshake, bare offsets."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from hatwisted.ha.events import FirstReport, Frames, Opened, Report
from hatwisted.ha.interfaces import IFrameReceiver, IHaDialect, IReportReceiver
from hatwisted.kernel import take_frames
from hatwisted.store.interfaces import Buffer
from hatwisted.wire import haframe


@implementer(IReportReceiver)
class ClassicReports:
    """The first report asks where to begin, all others acknowledge; they look alike."""

    def __init__(self) -> None:
        self._receiver = haframe.ReportReceiver()
        self._begun = False

    def receive(self, data: bytes) -> Sequence[FirstReport | Report]:
        """See IReportReceiver."""
        offset = self._receiver.receive(data)
        if offset is None:
            return ()
        if self._begun:
            return (Report(offset),)
        self._begun = True
        return (FirstReport(offset),)


@implementer(IFrameReceiver)
class ClassicFrames:
    """No handshake: a connection is an open link."""

    def __init__(self, max_body: int) -> None:
        self._receiver = haframe.FrameReceiver(max_body, take_frames)

    @property
    def pending_header(self) -> tuple[int, int] | None:
        """See IFrameReceiver."""
        return self._receiver.pending_header

    def opening(self) -> Sequence[Opened]:
        """See IFrameReceiver."""
        return (Opened(),)

    def receive(self, data: bytes) -> Sequence[Frames]:
        """See IFrameReceiver."""
        return (Frames(self._receiver.receive(data)),)


@implementer(IHaDialect)
class ClassicDialect:
    """Formats section 1; stateless, one object serves every link."""

    max_body = haframe.MAX_BODY

    def report_receiver(self) -> ClassicReports:
        """See IHaDialect."""
        return ClassicReports()

    def frame_receiver(self) -> ClassicFrames:
        """See IHaDialect."""
        return ClassicFrames(self.max_body)

    def encode_report(self, offset: int) -> bytes:
        """See IHaDialect."""
        return haframe.encode_report(offset)

    def encode_frames(self, start: int, body: Buffer, batch_size: int) -> Sequence[Buffer]:
        """See IHaDialect."""
        return haframe.encode_frames(start, body, batch_size)

    def encode_heads(self, start: int, size: int, batch_size: int) -> Sequence[tuple[bytes, int]]:
        """See IHaDialect."""
        return haframe.encode_heads(start, size, batch_size)

    def encode_heartbeat(self, offset: int) -> bytes:
        """See IHaDialect."""
        return haframe.encode_heartbeat(offset)
