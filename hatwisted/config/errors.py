"""What is wrong with a configuration: always one line, naming the place and what would be allowed."""

from __future__ import annotations


class ConfigError(Exception):
    """A configuration that can't be used; `str()` is the operator's line: `file:line: key: what, allowed`."""


class SettingError(ConfigError):
    """A well-formed value that this host can't give effect to; `key` is the setting, `str()` the reason
    alone: whoever has the file adds the place."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
