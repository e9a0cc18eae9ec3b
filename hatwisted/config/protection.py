"""What a configuration asks for and doesn't get: a server started with it would be open against its owner's will,
so it doesn't start, unless that is allowed."""

from __future__ import annotations

from hatwisted.config.load import C, Loaded, schema_fields
from hatwisted.config.rocketmqkeys import PROTECTION_KEYS


def missing_protection(loaded: Loaded[C]) -> list[str]:
    """A line for each entry that asks for protection which isn't given."""
    known = {field.encode_name for field in schema_fields(type(loaded.config))}
    return [
        f"{loaded.source.where(key)}: {key}={entry.value}: {PROTECTION_KEYS[key].text}"
        for key, entry in loaded.source.entries.items()
        if key in PROTECTION_KEYS
        and key not in known
        and entry.value.strip().lower() not in PROTECTION_KEYS[key].harmless
    ]
