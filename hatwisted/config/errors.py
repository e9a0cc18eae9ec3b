"""What is wrong with a configuration: always one line, naming the place and what is allowed."""

from __future__ import annotations


class ConfigError(Exception):
    """A configuration that can't be used; `str()` is the operator's line: `file:line: key: what, allowed`."""


class SettingError(ConfigError):
    """A well-formed value that can't be used on this host; `key` is the setting, `str()` the reason
    alone: the caller that has the file adds the place."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
