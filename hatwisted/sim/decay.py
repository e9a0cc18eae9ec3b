"""Bits that change at rest while other faults go on, until an operator restores them: of bodies in
a log, below what its checkpoint calls flushed, of queues, and of index files.

As long as a bit is wrong, the messages that it touches needn't be readable; everything else must be, and no reader
gets a message of another queue. A store may refuse to start because of it: then, and once all faults are over, the
operator puts the log right, as from the other copy, and moves folders of queues and index away, to be made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.group import Group
from hatwisted.sim.history import Sent
from hatwisted.sim.siminode import Inode
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.wire.layout import BODY_AT
from hatwisted.wire.storenames import CHECKPOINT_FILE, LOG_FOLDER, QUEUE_FOLDER

AROUND = 8
"""Bytes on each side by which a restored byte is known to be the one that has changed."""


class Flip(NamedTuple):
    """One bit. name: of the machine; path, at: the file and its byte; mask: the bit; before: that byte and those
    around it, as they were."""

    name: str
    path: str
    at: int
    mask: int
    before: bytes


class Decay:
    """Of one run's `group`. sent: what producers have sent, by number."""

    def __init__(self, group: Group, sent: Mapping[int, Sent]) -> None:
        self.flips: list[Flip] = []
        """Bits that are wrong at present."""
        self.refused = 0
        """Starts that a store refused because of them."""
        self._group = group
        self._sent = sent
        self._offsets: set[int] = set()

    def begin(self, fault: Fault) -> bool:
        """A bit changes. False if there is none that could."""
        machine = self._group.machines[fault.host]
        found = self._found(fault) if machine.powered else None
        if found is None:
            return False
        path, at = found
        before = bytes(machine.disk.names.files[path].data[max(0, at - AROUND) : at + AROUND])
        self.flips.append(Flip(fault.host, path, at, 1 << fault.count, before))
        machine.disk.flip_bit(path, 8 * at + fault.count)
        self._group.trace.note(f"bit flipped at {at} of {path} on {fault.host}")
        return True

    def _found(self, fault: Fault) -> tuple[str, int] | None:
        """A file and one of its bytes."""
        files = self._group.machines[fault.host].disk.names.files
        if fault.other == LOG_FOLDER:
            return self._in_a_body(fault, files)
        inner = f"/store/{fault.other}/"
        sizes = {path: len(files[path].stable) for path in sorted(files) if path.startswith(inner)}
        at = int(fault.amount * sum(sizes.values()))
        for path, size in sizes.items():
            if at < size:
                return path, at
            at -= size
        return None

    def _in_a_body(self, fault: Fault, files: Mapping[str, Inode]) -> tuple[str, int] | None:
        """Of a message that this machine has had on its disk for a while, and another after it: a record has no
        checksum for the rest of it, and the last one of a log is cut like one that was never whole."""
        disk, size = self._group.machines[fault.host].disk, self._group.setup.log_file_size
        with disk.looked_at():
            checkpoint = StoreCheckpoint(disk, f"/store/{CHECKPOINT_FILE}")
            checkpoint.load()
        bodies = self._bodies(fault.host, checkpoint.flushed or 0)[:-1]
        if not bodies:
            return None
        body = bodies[int(fault.amount * len(bodies))]
        offset = body[int(fault.amount * len(bodies) % 1 * len(body))]
        path = f"/store/{LOG_FOLDER}/{offset - offset % size:020d}"
        if path not in files or offset % size >= len(files[path].stable):
            return None
        self._offsets.add(offset)
        return path, offset % size

    def _bodies(self, name: str, upto: int) -> list[range]:
        """Where the log has those of messages that this machine promises to have, in order."""
        places = [sent for sent in self._sent.values() if sent.place is not None and name in sent.on]
        starts = [(sent.place.log_offset + BODY_AT, len(sent.body)) for sent in places if sent.place]
        return sorted(
            (range(start, start + size) for start, size in starts if start + size <= upto), key=_start
        )

    # -- what may be missing meanwhile -----------------------------------------------------------------------

    @property
    def in_log(self) -> bool:
        """Is a bit of a log wrong?"""
        return bool(self._offsets)

    def touches(self, name: str, sent: Sent) -> bool:
        """Is something wrong with a message on this machine? A slave may have copied what its master had."""
        if not self.flips or sent.place is None:
            return False
        place = sent.place
        record = range(place.log_offset, place.log_offset + BODY_AT + len(sent.body))
        if any(offset in record for offset in self._offsets):
            return True
        return (place.topic, place.queue_id) in self.queues(name)

    def queues(self, name: str) -> set[tuple[str, int]]:
        """Queues of this machine that are wrong: topic and queue id. A start may find more entries of such a queue
        in doubt than the one that has changed."""
        wrong = set()
        for flip in self.flips:
            *_, kind, topic, queue_id, _ = f"///{flip.path}".split("/")
            if flip.name == name and kind == QUEUE_FOLDER:
                wrong.add((topic, int(queue_id)))
        return wrong

    def same(self, here: bytes, there: bytes, start: int) -> bool:
        """Are these bytes of two logs the same, but for what has changed?

        - here, there: of the one and of the other
        - start: their offset
        """
        if here == there:
            return True
        wrong = [offset - start for offset in self._offsets if 0 <= offset - start < len(here)]
        if len(here) != len(there) or not wrong:
            return False
        one, other = bytearray(here), bytearray(there)
        for at in wrong:
            one[at] = other[at] = 0
        return one == other

    # -- the operator ----------------------------------------------------------------------------------------

    def restore_all(self) -> dict[str, set[str]]:
        """Put the logs right. By machine: folders of queues and indexes that are to be made anew."""
        self.restore(HOSTS)
        folders: dict[str, set[str]] = {}
        for flip in self.flips:
            if f"/{LOG_FOLDER}/" not in flip.path:
                folders.setdefault(flip.name, set()).add(flip.path.rpartition("/")[0] + "/")
        self.flips.clear()
        self._offsets.clear()
        return folders

    def restore(self, names: Collection[str]) -> bool:
        """Put right what is wrong in the logs of these machines, where it still is: was there anything? What a
        slave has copied is wrong there, too."""
        restored = False
        for flip in reversed(self.flips):  # one may lie beside a later one
            for name in names if f"/{LOG_FOLDER}/" in flip.path else ():
                inode = self._group.machines[name].disk.names.files.get(flip.path)
                start = max(0, flip.at - AROUND)
                if inode is None or flip.at >= min(len(inode.data), len(inode.stable)):
                    continue
                now = bytearray(inode.data[start : flip.at + AROUND])
                now[flip.at - start] ^= flip.mask
                if bytes(now) == flip.before:
                    bit = 8 * flip.at + flip.mask.bit_length() - 1
                    self._group.machines[name].disk.flip_bit(flip.path, bit)
                    restored = True
        return restored


def _start(body: range) -> int:
    return body.start
