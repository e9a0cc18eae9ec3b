"""Facts about this host, as `hatwisted.health.surroundings` wants them; what can't be found out is None."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from hatwisted import __version__
from hatwisted.config.schema import BrokerConfig
from hatwisted.health.surroundings import Disk

MOUNTS: Final = Path("/proc/mounts")
TIMEX_BYTES: Final = 512
"""At least as many as the kernel's struct timex has."""
TIME_ERROR: Final = 5
"""What adjtimex gives for a clock that nothing keeps right."""


def disk_of(config: BrokerConfig) -> Disk:
    """Of the commit log's folder, which may have yet to be made. As in `df`, and as the broker itself will see it,
    what is kept back for root counts neither as used nor as free."""
    folder = Path(config.commit_log_path).absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(existing)
    return Disk(
        folder=str(folder),
        writable=os.access(existing, os.W_OK | os.X_OK),
        total=usage.used + usage.free,
        free=usage.free,
        kind=file_system_of(existing),
        file_size=config.mapped_file_size_commit_log,
        limit=config.disk_max_used_space_ratio / 100,
    )


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of the file system that holds it; "" if the kernel doesn't tell. mounts: where it does."""
    real, best, kind = str(path.resolve()), "", ""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        _, where, its_kind, *_ = line.split()
        inside = real == where or real.startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best):
            best, kind = where, its_kind
    return kind


def limits() -> tuple[int, int | None]:
    """(descriptors, bytes of a file or None for any): of descriptors the hard limit, to which a broker
    raises its own."""
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    length, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return descriptors, None if length == resource.RLIM_INFINITY else length


def clock_synchronised(library: Callable[[None], Any] = ctypes.CDLL) -> bool | None:
    """By the kernel's word. library: gives C's."""
    try:
        state = library(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != TIME_ERROR


def versions() -> str:
    """Of what a broker stands on."""
    return (
        f"hatwisted {__version__}, Python {platform.python_version()}, Twisted {version('Twisted')}, "
        f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs, {sys.byteorder}-endian"
    )
