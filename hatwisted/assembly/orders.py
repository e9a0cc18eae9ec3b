"""What the operator of a running server orders: read the configuration again, or stop without waiting for others.

Orders come from outside (twistd's process takes them as signals), and whoever a node is made of listens.
"""

from __future__ import annotations

from collections.abc import Callable

from hatwisted.config.schema import BrokerConfig, NamesrvConfig

ServerConfig = BrokerConfig | NamesrvConfig

Reread = Callable[[ServerConfig, ServerConfig], None]
"""Called with the configuration of the last reading, and that of the present one."""


class Orders:
    """Hands them on."""

    def __init__(self) -> None:
        self._rereading: list[Reread] = []
        self._hastening: list[Callable[[], object]] = []

    def on_reread(self, listener: Reread) -> None:
        """Call `listener` when the configuration has been read again."""
        self._rereading.append(listener)

    def on_haste(self, listener: Callable[[], object]) -> None:
        """Call `listener` when a stop shall wait for nobody any more."""
        self._hastening.append(listener)

    def reread(self, before: ServerConfig, now: ServerConfig) -> None:
        """The configuration has been read again.

        - before: what the last reading gave
        - now: what this one gives
        """
        for listener in self._rereading:
            listener(before, now)

    def hasten(self) -> None:
        """The stop under way, or the next one, waits for no slave and for nothing that the next start can do."""
        for listener in self._hastening:
            listener()
