"""What an operator decides about a port: who may connect."""

from __future__ import annotations

from dataclasses import dataclass

from hatwisted.wire.networks import Networks


@dataclass(frozen=True, kw_only=True)
class PortOptions:
    """Without arguments RocketMQ's openness.

    - networks: from where connections are taken; None: from everywhere
    """

    networks: Networks | None = None
