"""Names of files and folders, twice: as programs see them, and as they stand on the platter; between the two a
journal."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hatwisted.sim.siminode import Inode, resize


def folder_of(path: str) -> str:
    """The folder that holds it."""
    return path.rpartition("/")[0] or "/"


class Names:
    """Which file has which name, and which folders there are."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.folders = {"/"}

    def put(self, path: str, inode: Inode) -> None:
        """`path` names that file."""
        self.files[path] = inode

    def drop(self, path: str) -> None:
        """No such name, file or folder, any more."""
        if self.files.pop(path, None) is None:
            self.folders.discard(path)

    def make_folder(self, path: str) -> None:
        """There is such a folder."""
        self.folders.add(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, or a folder with all in it."""
        if source in self.files:
            self.files[target] = self.files.pop(source)
        elif source in self.folders:
            self.folders.discard(source)
            self.folders.add(target)
            inner = source + "/"
            for path in [path for path in self.files if path.startswith(inner)]:
                self.files[target + path.removeprefix(source)] = self.files.pop(path)
            for path in [path for path in self.folders if path.startswith(inner)]:
                self.folders.discard(path)
                self.folders.add(target + path.removeprefix(source))

    def copy_from(self, other: Names) -> None:
        """The same names."""
        self.files = dict(other.files)
        self.folders = set(other.folders)


NameChange = Callable[[Names], None]


class NameJournal:
    """What has happened to names and lengths, in order, until the platter has it."""

    def __init__(self) -> None:
        self.names = Names()
        """As programs see them."""
        self._stable = Names()
        self._pending: list[tuple[str, NameChange]] = []
        """Folder, and what happens; lengths have no folder."""

    def change(self, folder: str, change: NameChange) -> None:
        """Something happens to the names in a folder."""
        change(self.names)
        self._pending.append((folder, change))

    def set_length(self, inode: Inode, size: int) -> None:
        """A file is cut, or zeros are added."""
        resize(inode.data, size)
        syncs = inode.syncs

        def reach(_: Names) -> None:
            if inode.syncs == syncs:
                resize(inode.stable, size)

        self._pending.append(("", reach))

    def sync_folder(self, path: str) -> None:
        """All up to the last change in that folder is durable."""
        pending = self._pending
        last = len(pending) - 1
        while last >= 0 and pending[last][0] != path:
            last -= 1
        self._commit(last + 1)

    def sync(self) -> None:
        """All is."""
        self._commit(len(self._pending))

    def write_back(self, random: Random) -> None:
        """As much of the beginning is as the kernel may have written by itself."""
        self._commit(random.randrange(len(self._pending) + 1))

    def reboot(self) -> list[Inode]:
        """Programs see what is on the platter: these files."""
        self._pending.clear()
        self.names.copy_from(self._stable)
        return list({id(inode): inode for inode in self.names.files.values()}.values())

    def _commit(self, count: int) -> None:
        for _, change in self._pending[:count]:
            change(self._stable)
        del self._pending[:count]
