"""What a client takes from its process unless its program gives something else: its name, and chance.

Only drivers read it. The logic gets both through them, so that a seeded simulation replays to the byte.
"""

from __future__ import annotations

import os
import random
import socket
from typing import Final

RANDOMNESS: Final[random.Random] = random.SystemRandom()
"""The system's: processes that were forked from one don't draw the same."""


def process_name() -> str:
    """As "host@pid": distinguishes processes, and shows operators where to look."""
    return f"{socket.gethostname()}@{os.getpid()}"
