"""Settings that operators keep in a name server: namespace, key, value.

One namespace means something to the name server itself: ORDER_TOPIC_CONFIG, whose content every broker gets
with the answer to its registration. The file (`kvConfigPath`) is RocketMQ's:
`{"configTable":{namespace:{...}}}`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hatwisted.wire import fastjson

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"

MAX_SETTINGS = 10_000
"""Keys of all namespaces together."""

MAX_CHARACTERS = 4 << 20
"""Of all namespaces, keys and values together. The file is written whole at each change, and brokers get a
namespace of it with each registration."""


class TooManySettings(ValueError):
    """There is no room for another one."""


class _Content(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


class KvConfig:
    """The table."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, str]] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """Keys of all namespaces, and these."""
        return len(self._namespaces) + sum(map(len, self._namespaces.values()))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def put(self, namespace: str, key: str, value: str) -> None:
        """Keep a value.

        - namespace, key: where
        - value: what

        Raises TooManySettings, and changes nothing, if that were more than there may be.
        """
        self._check_room(namespace, key, value)
        self._namespaces.setdefault(namespace, {})[key] = value
        self._tell()

    def _check_room(self, namespace: str, key: str, value: str) -> None:
        if self._lacking_room(namespace, key, value) is None:
            return
        # Those that were emptied stay as long as nobody needs their place.
        kept = {name: each for name, each in self._namespaces.items() if each or name == ORDER_TOPIC_CONFIG}
        if len(kept) < len(self._namespaces):
            self._namespaces = kept
        lacking = self._lacking_room(namespace, key, value)
        if lacking is not None:
            raise TooManySettings(lacking)

    def _lacking_room(self, namespace: str, key: str, value: str) -> str | None:
        """What speaks against another setting; None if nothing does."""
        every = self._namespaces.values()
        count = self.count
        size = sum(map(len, self._namespaces))
        size += sum(len(name) + len(text) for each in every for name, text in each.items())
        former = self._namespaces.get(namespace, {}).get(key)
        new = len(value) - len(former) if former is not None else len(namespace) + len(key) + len(value)
        if (former is not None or count < MAX_SETTINGS) and (new <= 0 or size + new <= MAX_CHARACTERS):
            return None
        return (
            f"{count} settings of {size} characters are kept, and no more than {MAX_SETTINGS} of "
            f"{MAX_CHARACTERS} may be: delete some"
        )

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """An empty namespace stays, as in RocketMQ: brokers with ordered topics learn from theirs that there are
        none left; others make room when that is needed."""
        if self._namespaces.get(namespace, {}).pop(key, None) is not None:
            self._tell()

    def namespace(self, name: str) -> dict[str, str] | None:
        """All of a namespace; None if nothing was ever put there."""
        return self._namespaces.get(name)

    def encode(self) -> bytes:
        """The file's content."""
        return fastjson.dumps_compact(_Content(self._namespaces))

    def decode(self, data: bytes) -> None:
        """Take over a file's content. Raises ValueError."""
        self._namespaces = msgspec.convert(fastjson.loads(data), _Content).config_table
