"""What a server is told in confidence, and where others find it: on its command line, in files that anybody may
read. Such a server starts, since the harm is done; its operator is told once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hatwisted.config.load import OVERRIDE, PLACES, C, Loaded, schema_fields, secret_keys
from hatwisted.wire.javaproperties import Entry

FILES: Final = frozenset(
    """
    tls.server.keyPath tls.client.keyPath haTlsKeyPath credentialsFile dashboardPasswordFile
    """.split()
)
"""Keys that name files with secrets."""


def told_on_command_line(loaded: Loaded[C]) -> Iterator[str]:
    """A line for each secret that the list of processes shows."""
    for entry in _secrets(loaded):
        if entry.line == OVERRIDE:
            yield (
                f"{PLACES[OVERRIDE]}: {entry.key}: any user of this host may read it in the list of processes: "
                "write it into the file that --conf names"
            )


def secret_files(loaded: Loaded[C]) -> Iterator[str]:
    """The configuration's file and its file of TLS properties, where they say a secret, and those that have one by
    themselves."""
    source = loaded.source
    for entry in _secrets(loaded):
        if entry.line > OVERRIDE:
            yield source.files.get(entry.key, source.name)
    for field in schema_fields(type(loaded.config)):
        path = getattr(loaded.config, field.name)
        if field.encode_name in FILES and path is not None:
            yield path


def _secrets(loaded: Loaded[C]) -> Iterator[Entry]:
    for key in sorted(secret_keys(type(loaded.config))):
        entry = loaded.source.entries.get(key)
        if entry is not None and entry.value:
            yield entry
