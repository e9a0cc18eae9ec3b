"""Disks of ext4 whose power can be made to fail: images behind a `blockrecorder`, mounted through loop devices."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from testbed.processes import REPOSITORY, dies_with_us
from tests.support.blockrecorder import BlockJournal, mark_of_broken, mark_of_slow

DISK_BYTES = 64 << 20
MAKE_EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
COMMAND_SECONDS = 60.0
"""For a mount, which may replay a journal, on a busy machine."""

BUSY_SECONDS = 5.0
"""For somebody who looks around the machine, and has something on the disk open."""
RECORDER_SECONDS = 10.0
"""For its end. A process with mounts of its own that began meanwhile keeps the disks mounted, there alone."""

SYNC_FILE_RANGE_WRITE = 2


def run(*command: str | Path) -> None:
    """A command that must succeed; its output is in the error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))} failed: {(done.stdout + done.stderr).strip()}")


def unmount(path: Path) -> None:
    """With all that is dirty written. Others may have it mounted still, or open: then it goes when they do."""
    with contextlib.suppress(OSError):  # the disk is broken
        run("sync", "--file-system", path)
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return run("umount", path)
        except OSError:
            if time.monotonic() > until:
                return run("umount", "--lazy", path)
        time.sleep(0.1)


def begin_writeback(folder: Path) -> None:
    """Have the kernel write what is dirty in the files below a folder, without a flush, as it does by itself after
    half a minute or when it lacks memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            libc.sync_file_range(file, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)
            os.close(file)


class RecordedDisks:
    """Disks by number, empty at first. A context manager: within it they are mounted and recorded.

    - folder: for images, journal and mount points
    - count: how many
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.paths = [folder / f"disk{number}" for number in range(count)]
        """Where they are mounted."""
        self._images = [folder / f"image{number}" for number in range(count)]
        self._before = [folder / f"before{number}" for number in range(count)]
        self._journal = folder / "journal"
        self._served = folder / "served"
        self._recording = ExitStack()
        for path in (*self.paths, self._served):
            path.mkdir(parents=True)
        for image in self._images:
            with open(image, "wb") as file:
                file.truncate(DISK_BYTES)
            run(*MAKE_EXT4, image)

    def __enter__(self) -> RecordedDisks:
        with ExitStack() as stack:
            for image, before in zip(self._images, self._before, strict=True):
                run("cp", "--sparse=always", image, before)
                for mark in (mark_of_broken(image), mark_of_slow(image)):
                    mark.unlink(missing_ok=True)
            self._journal.unlink(missing_ok=True)
            self._start_recorder(stack)
            for image, path in zip(self._images, self.paths, strict=True):
                run("mount", "-o", "loop", self._served / image.name, path)
                stack.callback(unmount, path)
            self._recording = stack.pop_all()
        return self

    def _start_recorder(self, stack: ExitStack) -> None:
        program = (sys.executable, "-m", "tests.support.blockrecorder")
        recorder = subprocess.Popen(
            [*dies_with_us(), *program, self._served, self._journal, *self._images], cwd=REPOSITORY
        )
        stack.callback(_end, recorder)
        try:
            until = time.monotonic() + COMMAND_SECONDS
            while not os.path.ismount(self._served):
                if recorder.poll() is not None or time.monotonic() > until:
                    raise OSError("the recorder didn't start")
                time.sleep(0.01)
        except BaseException:
            recorder.kill()
            raise
        stack.callback(unmount, self._served)

    def __exit__(self, *failure: object) -> None:
        self._recording.close()

    def break_one(self, number: int) -> None:
        """From now on, until the next recording, writes and flushes of this disk end in EIO."""
        mark_of_broken(self._images[number]).touch()

    @contextlib.contextmanager
    def slow(self, number: int) -> Iterator[None]:
        """Within it each flush of this disk takes a while."""
        mark = mark_of_slow(self._images[number])
        mark.touch()
        try:
            yield
        finally:
            mark.unlink()

    def position(self) -> int:
        """This moment, in the journal."""
        return self._journal.stat().st_size

    def unflushed(self, begin: int, end: int) -> list[int]:
        """Moments of the last recording, in this range, at which a disk had most to lose."""
        return BlockJournal(self._journal, self._before).unflushed(begin, end)

    def fail(self, position: int, failing: Sequence[int], chance: random.Random) -> str:
        """Power has failed; the other disks keep what they have.

        - position: the moment, of the last recording
        - failing: numbers of the disks
        - chance: draws what they have lost, which is returned in words
        """
        targets = {number: self._images[number] for number in failing}
        return BlockJournal(self._journal, self._before).cut(position, targets, chance)


def _end(recorder: subprocess.Popen[bytes]) -> None:
    """It ends with its file system."""
    try:
        recorder.wait(RECORDER_SECONDS)
    except subprocess.TimeoutExpired:
        recorder.kill()
        recorder.wait(COMMAND_SECONDS)


def missing(folder: Path) -> str | None:
    """Why disks can't be recorded on this machine; None: they can. folder: for a try."""
    if os.geteuid() != 0:
        return "mounting needs root"
    lacking = [name for name in _needed() if shutil.which(name) is None]
    if lacking or not os.path.exists("/dev/fuse"):
        return f"there is no {', no '.join(lacking or ['/dev/fuse'])}"
    try:
        with RecordedDisks(folder, 1):
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def _needed() -> Sequence[str]:
    return ("mount", "umount", "unshare", "losetup", MAKE_EXT4[0])
