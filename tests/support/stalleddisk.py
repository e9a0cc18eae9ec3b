"""twistd on a disk whose fdatasync can be stopped from outside: `python -m tests.support.stalleddisk SWITCH ...`.

While the file SWITCH exists, every fdatasync of the process blocks; the rest of the arguments are twistd's. So a
running broker, put together as twistd does it, shows what it waits for before it answers.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

LOOK = 0.01  # seconds between two looks at the switch


def stall_while(switch: Path) -> None:
    """From now on os.fdatasync waits until `switch` is gone."""
    sync = os.fdatasync

    def stalled(fd: int) -> None:
        while switch.exists():
            time.sleep(LOOK)
        sync(fd)

    os.fdatasync = stalled


if __name__ == "__main__":
    from twisted.scripts.twistd import run

    stall_while(Path(sys.argv.pop(1)))
    run()
