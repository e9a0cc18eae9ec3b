"""Tests of the real file system."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.interfaces import IFile


class FileCase(SynchronousTestCase):
    """A folder, a file system, and files that are closed at the end."""

    def setUp(self) -> None:
        self.fs = PosixFileSystem()
        self.folder = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def open(self, name: str = "file") -> IFile:
        file = self.fs.open(self.path(name), create=True)
        self.addCleanup(file.close)
        return file

    def content(self, name: str = "file") -> bytes:
        return self.fs.read(self.path(name))
