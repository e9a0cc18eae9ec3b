"""A recorder of what a file system writes to its disk, and of when it has it flushed.

    python -m tests.support.blockrecorder MOUNTPOINT JOURNAL IMAGE...

Where the kernel has no dm-log-writes: images of disks are offered as files of a FUSE file system. Loop devices on
these are real disks to ext4, and so each of its writes and flushes comes by here, in the order in which the kernel
gives them to a disk. All are appended to one journal before they are answered: its size is a moment, and whatever
was acknowledged to anybody up to then is in it. `BlockJournal` makes of it what a disk could hold if its power had
failed at that moment: all that was flushed, and any of the rest, by sectors.

The kernel's protocol (`linux/fuse.h`) is spoken here without libfuse: files that neither grow nor get names need
few of its requests.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

IN_HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, extensions, padding
OUT_HEADER = struct.Struct("<IiQ")  # length, negative errno, unique
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
READ_IN = struct.Struct("<QQIIQII")
LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = (
    1, 2, 3, 14, 15, 16, 17, 18, 20, 25, 26,
)  # fmt: skip
BATCH_FORGET = 42
MAJOR, MINOR = 7, 31
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
DIRECT_IO = 1
"""No page cache between the loop device and this process."""
MAX_WRITE = 1 << 20
"""Bytes of one request."""
ROOT, FIRST = 1, 2
"""Nodes: the folder, and the first of the files."""

SECTOR = 512
"""Bytes that a disk writes whole or not at all."""
ENTRY = struct.Struct("<BBxxIQ")  # kind, file, bytes, offset
WRITTEN, FLUSHED = 0, 1

SLOW_SECONDS = 1.0
"""Of a flush."""


class Entry(NamedTuple):
    """One of a journal. kind: WRITTEN or FLUSHED; file: number of the image; data: what was written at offset."""

    kind: int
    file: int
    offset: int
    data: bytes


# -- the recorder --------------------------------------------------------------------------------------------


class Recorder:
    """Serves images until its file system is unmounted."""

    def __init__(self, journal: Path, images: Sequence[Path]) -> None:
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._names = [image.name.encode() for image in images]
        self._images = [os.open(image, os.O_RDWR) for image in images]
        self._sizes = [os.fstat(image).st_size for image in self._images]
        self._broken = [mark_of_broken(image) for image in images]
        self._slow = [mark_of_slow(image) for image in images]
        self._verbs: dict[int, Callable[[int, bytes], bytes]] = {
            INIT: self._init,
            LOOKUP: self._lookup,
            GETATTR: lambda node, body: struct.pack("<QII", 60, 0, 0) + self._attributes(node),
            OPEN: lambda node, body: struct.pack("<QII", node, DIRECT_IO, 0),
            READ: self._read,
            WRITE: self._write,
            FSYNC: self._fsync,
            STATFS: lambda node, body: bytes(80),
            RELEASE: lambda node, body: b"",
            FLUSH: lambda node, body: b"",
        }

    def serve(self, device: int) -> None:
        """Answer the kernel's requests. device: an open /dev/fuse that is mounted."""
        while True:
            try:
                request = os.read(device, MAX_WRITE + 4096)
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    return
                raise
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
            if opcode in (FORGET, BATCH_FORGET):
                continue
            verb, failure, answer = self._verbs.get(opcode), 0, b""
            try:
                if verb is None:
                    raise OSError(errno.ENOSYS, "not needed here")
                answer = verb(node, request[IN_HEADER.size :])
            except OSError as error:
                failure = -(error.errno or errno.EIO)
            os.writev(device, (OUT_HEADER.pack(OUT_HEADER.size + len(answer), failure, unique), answer))

    @staticmethod
    def _init(node: int, body: bytes) -> bytes:
        _, _, ahead, flags = struct.unpack_from("<IIII", body)
        flags &= BIG_WRITES | MAX_PAGES
        return INIT_OUT.pack(MAJOR, MINOR, ahead, flags, 64, 48, MAX_WRITE, 1, MAX_WRITE // 4096, 0, 0)

    def _lookup(self, node: int, body: bytes) -> bytes:
        name = body.rstrip(b"\0")
        if node != ROOT or name not in self._names:
            raise OSError(errno.ENOENT, "no such image")
        found = FIRST + self._names.index(name)
        return struct.pack("<QQQQII", found, 0, 60, 60, 0, 0) + self._attributes(found)

    def _attributes(self, node: int) -> bytes:
        mode, size = stat.S_IFDIR | 0o700, 0
        if node != ROOT:
            mode, size = stat.S_IFREG | 0o600, self._sizes[node - FIRST]
        return ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = READ_IN.unpack_from(body)
        return os.pread(self._images[node - FIRST], size, offset)

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size, *_ = READ_IN.unpack_from(body)
        data = memoryview(body)[READ_IN.size :]
        assert len(data) == size
        self._check_sound(node)
        os.pwrite(self._images[node - FIRST], data, offset)
        self._note(WRITTEN, node, offset, data)
        return struct.pack("<II", size, 0)

    def _fsync(self, node: int, body: bytes) -> bytes:
        self._check_sound(node)
        if self._slow[node - FIRST].exists():
            time.sleep(SLOW_SECONDS)
        self._note(FLUSHED, node, 0, b"")
        return b""

    def _check_sound(self, node: int) -> None:
        if self._broken[node - FIRST].exists():
            raise OSError(errno.EIO, "this disk is broken")

    def _note(self, kind: int, node: int, offset: int, data: bytes | memoryview) -> None:
        entry = ENTRY.pack(kind, node - FIRST, len(data), offset)
        if os.writev(self._journal, (entry, data)) != len(entry) + len(data):
            raise OSError(errno.ENOSPC, "no room for the journal")


def mark_of_broken(image: Path) -> Path:
    """A file beside an image: while it exists, the disk takes nothing more."""
    return image.with_name(image.name + ".broken")


def mark_of_slow(image: Path) -> Path:
    """A file beside an image: while it exists, a flush of the disk takes SLOW_SECONDS."""
    return image.with_name(image.name + ".slow")


def mount_fuse(device: int, folder: Path) -> None:
    """Mount a FUSE file system. device: an open /dev/fuse."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"blockrecorder", os.fsencode(folder), b"fuse", 0, options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"can't mount FUSE on {folder}: {os.strerror(code)}")


# -- what it has recorded ------------------------------------------------------------------------------------


class BlockJournal:
    """A journal, read once from its start on.

    - path: its file
    - blank: images as they were before
    """

    def __init__(self, path: Path, blank: Sequence[Path]) -> None:
        self._path = path
        self._blank = blank

    def entries(self, position: int) -> Iterator[Entry]:
        """Those that were whole at a moment."""
        with open(self._path, "rb") as file:
            while file.tell() + ENTRY.size <= position:
                kind, number, size, offset = ENTRY.unpack(file.read(ENTRY.size))
                if file.tell() + size > position:
                    return
                yield Entry(kind, number, offset, file.read(size))

    def unflushed(self, begin: int, end: int) -> list[int]:
        """Moments in this range at which a disk was about to flush what it had been given: it has most to lose."""
        moments, position = [], 0
        written: set[int] = set()
        for entry in self.entries(end):
            if entry.kind == FLUSHED and entry.file in written and position >= begin:
                moments.append(position)
            (written.add if entry.kind == WRITTEN else written.discard)(entry.file)
            position += ENTRY.size + len(entry.data)
        return moments

    def cut(self, position: int, targets: Mapping[int, Path], chance: random.Random) -> str:
        """Make images as a power failure could have left them.

        - position: the moment
        - targets: files to make, by the numbers of the images
        - chance: draws what of the rest has survived; returned in words
        """
        disks = {number: _copied(self._blank[number], target) for number, target in targets.items()}
        loose: dict[int, list[Entry]] = {number: [] for number in targets}
        try:
            for entry in self.entries(position):
                if entry.file not in loose:
                    continue
                waiting = loose[entry.file]
                if entry.kind == WRITTEN:
                    waiting.append(entry)
                    continue
                for each in waiting:
                    os.pwrite(disks[entry.file], each.data, each.offset)
                waiting.clear()
            kept = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
            torn = chance.choice((0.0, 0.2)) if 0 < kept < 1 else 0.0
            for number, waiting in loose.items():
                for each in waiting:
                    for offset, data in _surviving(each, kept, torn, chance):
                        os.pwrite(disks[number], data, offset)
        finally:
            for disk in disks.values():
                os.close(disk)
        counts = " and ".join(str(len(waiting)) for waiting in loose.values())
        return f"{counts} writes weren't flushed, {kept:.0%} of them kept, {torn:.0%} torn"


def _surviving(entry: Entry, kept: float, torn: float, chance: random.Random) -> Iterator[tuple[int, bytes]]:
    """What of a write has reached the disk."""
    if chance.random() >= torn:
        if chance.random() < kept:
            yield entry.offset, entry.data
        return
    for begin in range(0, len(entry.data), SECTOR):
        if chance.random() < kept:
            yield entry.offset + begin, entry.data[begin : begin + SECTOR]


def _copied(source: Path, target: Path) -> int:
    """An open copy, with holes where nothing was written."""
    copy = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(source, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        os.ftruncate(copy, size)
        offset = 0
        while offset < size:
            try:
                offset = os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError:  # ENXIO: only holes follow
                break
            end = os.lseek(file.fileno(), offset, os.SEEK_HOLE)
            os.pwrite(copy, os.pread(file.fileno(), end - offset, offset), offset)
            offset = end
    return copy


if __name__ == "__main__":
    mountpoint, journal_path, *image_paths = map(Path, sys.argv[1:])
    fuse = os.open("/dev/fuse", os.O_RDWR)
    recorder = Recorder(journal_path, image_paths)
    mount_fuse(fuse, mountpoint)
    recorder.serve(fuse)
