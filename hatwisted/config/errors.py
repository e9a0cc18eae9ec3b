"""What is wrong with a configuration: always one line, naming the place and what would be allowed."""

from __future__ import annotations


class ConfigError(Exception):
    """A configuration that can't be used; `str()` is the operator's line: `file:line: key: what, allowed`."""
