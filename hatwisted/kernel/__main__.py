"""`python -m hatwisted.kernel`: which twin of the kernel is in use, in one line."""

from __future__ import annotations

import os

from hatwisted.kernel import COMPILED


def told() -> str:
    """The line."""
    if COMPILED:
        return "kernel: compiled"
    if os.environ.get("HATWISTED_PURE", "0") not in ("", "0"):
        return "kernel: Python (HATWISTED_PURE is set)"
    return (
        "kernel: Python, some 40 % slower: there was no C compiler when hatwisted was installed; "
        "install one (Debian, Ubuntu: apt install gcc python3-dev) and hatwisted once more"
    )


if __name__ == "__main__":
    print(told())
