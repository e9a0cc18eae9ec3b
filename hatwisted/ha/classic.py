"""RocketMQ 4.x's HA dialect (5.x without controller mode speaks it as well): no handshake, bare offsets."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import classImplements, implementer

from hatwisted.ha.interfaces import IFrameReceiver, IHaDialect, IReportReceiver
from hatwisted.store.interfaces import Buffer
from hatwisted.wire import haframe

classImplements(haframe.ReportReceiver, IReportReceiver)
classImplements(haframe.FrameReceiver, IFrameReceiver)


@implementer(IHaDialect)
class ClassicDialect:
    """Formats section 1; stateless, one object serves every link."""

    max_body = haframe.MAX_BODY

    def report_receiver(self) -> haframe.ReportReceiver:
        """See IHaDialect."""
        return haframe.ReportReceiver()

    def frame_receiver(self) -> haframe.FrameReceiver:
        """See IHaDialect."""
        return haframe.FrameReceiver(self.max_body)

    def encode_report(self, offset: int) -> bytes:
        """See IHaDialect."""
        return haframe.encode_report(offset)

    def encode_frames(self, start: int, body: Buffer, batch_size: int) -> Sequence[Buffer]:
        """See IHaDialect."""
        return haframe.encode_frames(start, body, batch_size)

    def encode_heartbeat(self, offset: int) -> bytes:
        """See IHaDialect."""
        return haframe.encode_heartbeat(offset)
