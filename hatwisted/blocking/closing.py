"""What is closed at the end of a `with`."""

from __future__ import annotations

from typing import Self


class Closing:
    """Gives a class that has `close` its `with`."""

    def close(self) -> object:
        """Give back what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
