"""Protection that a configuration asks for and that isn't implemented: a server started with it would be open
against its owner's will, so it doesn't start unless told to (--allow-open)."""

from __future__ import annotations

from hatwisted.config.load import Source
from hatwisted.config.rocketmqkeys import PROTECTION_KEYS


def missing_protection(source: Source) -> list[str]:
    """A line for each entry that asks for protection which isn't given."""
    return [
        f"{source.where(key)}: {key}={entry.value}: {PROTECTION_KEYS[key].text}"
        for key, entry in source.entries.items()
        if key in PROTECTION_KEYS and entry.value.strip().lower() not in PROTECTION_KEYS[key].harmless
    ]
