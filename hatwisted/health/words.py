"""How a broker is in a few words, the same on the screen of `status` and on the live page."""

from __future__ import annotations

from enum import Enum

from hatwisted.health.figures import BrokerFigures, View
from hatwisted.wire.quantities import size_text


class Mood(Enum):
    """Of the words: well, catching up, or in need of somebody."""

    GOOD = "good"
    BUSY = "busy"
    BAD = "bad"


def state_of(view: View, broker: BrokerFigures) -> tuple[str, Mood]:
    """What it is doing."""
    if broker.error is not None:
        return "no answer", Mood.BAD
    if broker.is_master:
        if broker.slaves is None:
            return "up", Mood.GOOD
        alone = broker.role == "SYNC_MASTER" and not broker.slaves
        return f"up, {counted(len(broker.slaves), 'slave')} linked", Mood.BAD if alone else Mood.GOOD
    lag = view.lag(broker)
    if lag is None:
        return "up", Mood.GOOD
    if not lag.bytes:
        return "level", Mood.GOOD
    age = "" if lag.seconds is None else f", {span_text(lag.seconds)}"
    still = "" if lag.to_level is None else f", level in {span_text(lag.to_level)}"
    return f"{size_text(lag.bytes)} behind{age}{still}", Mood.BUSY if lag.rate else Mood.BAD


def make_of(broker: BrokerFigures) -> str:
    """What it is, and of which version; empty if it doesn't say."""
    return f"hatwisted {broker.hatwisted}" if broker.hatwisted else broker.version or ""


def counted(number: int, what: str) -> str:
    """1 slave, 2 slaves."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def span_text(seconds: float) -> str:
    """A time as people say it: 0.4 s, 12 s, 3 min, 2.5 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
