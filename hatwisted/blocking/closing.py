"""Objects that are closed at the end of a `with`."""

from __future__ import annotations

from typing import Self


class Closing:
    """Makes a class that has `close` a context manager."""

    def close(self) -> object:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
