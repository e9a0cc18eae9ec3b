"""What can be set about the HA link, with RocketMQ's defaults; times in seconds, sizes in bytes.

A value that can't work is our operator's mistake and raises ValueError at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hatwisted.ha.sockets import SocketSizes
from hatwisted.wire.haframe import MAX_BODY, HaAck, HaFirstSync
from hatwisted.wire.networks import Networks


@dataclass(frozen=True, kw_only=True)
class LinkTimes:
    """`haSendHeartbeatInterval` and `haHousekeepingInterval`."""

    heartbeat_interval: float = 5.0
    housekeeping_interval: float = 20.0

    def __post_init__(self) -> None:
        for key, value in (
            ("haSendHeartbeatInterval", self.heartbeat_interval),
            ("haHousekeepingInterval", self.housekeeping_interval),
        ):
            if value <= 0:
                raise ValueError(f"{key} is {value:g} s, it must be above 0")

    @property
    def warning(self) -> str | None:
        """What works, as in RocketMQ, but not as anybody would want it; for the log."""
        if self.heartbeat_interval < self.housekeeping_interval:
            return None
        return (
            f"haSendHeartbeatInterval ({self.heartbeat_interval:g} s) isn't below haHousekeepingInterval "
            f"({self.housekeeping_interval:g} s): idle HA links will be dropped and re-established"
        )

    @property
    def look_interval(self) -> float:
        """How often a link looks at its clocks: each second, or more often if the heartbeat wants it."""
        return min(1.0, self.heartbeat_interval / 5)


@dataclass(frozen=True, kw_only=True)
class MasterSettings(LinkTimes):
    """The accept side."""

    sync: Callable[[], bool] = lambda: False
    """Do puts wait for slaves at present, as a SYNC_MASTER's do?"""
    batch_size: int = 32768
    """`haTransferBatchSize`: most body bytes of a frame."""
    fall_behind_max: int = 256 << 20
    """`haSlaveFallbehindMax`: from this lag on a put isn't made to wait for the slave."""
    max_gap_not_in_sync: int = 256 << 20
    """`haMaxGapNotInSync`: a slave this far behind is not counted as in sync."""
    in_sync_replicas: int | None = None
    """`inSyncReplicas`: copies, the master's included, that a put waits for; None: RocketMQ 4's one slave."""
    min_in_sync_replicas: int | None = None
    """`minInSyncReplicas`: fewer copies in sync refuse a put before it's appended."""
    first_sync: HaFirstSync = HaFirstSync.LAST_FILE
    """What a slave without any log is sent, whatever kind of slave it is."""
    identified: bool = False
    """Do slaves show who they are before they say anything (`haTlsEnable`)? Then one that hasn't said anything
    isn't known to be a slave."""
    allowed: Networks | None = None
    """`haAllowList`: from where slaves may connect; None: from everywhere."""
    sockets: SocketSizes = field(default_factory=SocketSizes)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.batch_size <= MAX_BODY:
            raise ValueError(
                f"haTransferBatchSize is {self.batch_size}, allowed are 1 to {MAX_BODY}: a RocketMQ slave "
                "never completes a bigger frame"
            )

    @property
    def waits_for_slaves(self) -> bool:
        """Is a put short of something while no slave is linked?"""
        return self.sync() and self.in_sync_replicas != 1

    @property
    def copies_needed(self) -> int:
        """Copies in sync, the master's included, without which a put is refused before the append."""
        return max(self.in_sync_replicas or 1, self.min_in_sync_replicas or 1)


@dataclass(frozen=True, kw_only=True)
class SlaveSettings(LinkTimes):
    """The dialling side."""

    ack: HaAck = HaAck.RECEIVED
    first_sync: HaFirstSync = HaFirstSync.LAST_FILE
    sockets: SocketSizes = field(default_factory=SocketSizes)
