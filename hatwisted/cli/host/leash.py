"""A server that ends, in order, when who started it is gone, even by a SIGKILL that left it no time to say so:
`python -m hatwisted.cli.host.leash PID COMMAND...`.

The kernel remembers it through the exec, so it's the server's own; where it isn't Linux, the server stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def leashed(*command: str) -> list[str]:
    """The words that run `command` on a leash of this process."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def main(owner: int, command: list[str]) -> None:
    """Become `command`, as long as `owner` lives."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != owner:  # it has gone before the kernel knew
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
