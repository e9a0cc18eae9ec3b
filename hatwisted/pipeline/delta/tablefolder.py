"""The files of a table, in a folder of this machine or at an object store (`s3://`, `gs://`, `abfs://`, `hdfs://`).

Nobody ever sees half a file. A local one is hidden until it is on the disk and then renamed, one of Hadoop's until
it's written; an object appears when it is whole, so it is written under its name at once, and nothing is renamed,
which object stores can't. What makes files rows of the table is Delta's commit alone, which stores take once, by a
conditional put.

Addresses, accounts and regions come from where the stores' own tools look: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
`AWS_ENDPOINT_URL`, the machine's role and so on for S3, `GOOGLE_APPLICATION_CREDENTIALS` for `gs://`,
`AZURE_STORAGE_ACCOUNT_NAME` with its key for `abfs://` (decode/azurefiles.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

from pyarrow import fs

from hatwisted.pipeline.decode.storebytes import ARROW_SCHEMES, HADOOP_SCHEMES, arrow_filesystem, is_remote
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.names import UNFINISHED

LOG_FOLDER: Final = "_delta_log"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._+=,%:/-]+")
_RENAMED: Final = tuple(f"{scheme}://" for scheme in HADOOP_SCHEMES)


class NewFile(Protocol):
    """A file that is being written."""

    @property
    def sink(self) -> Any:
        """What a Parquet writer takes."""

    def finish(self) -> tuple[int, int]:
        """It's written: let it appear. Its bytes, and when it was modified, in ms since the epoch."""

    def abandon(self) -> None:
        """Nobody will mention it."""


def table_path(path: str) -> str:
    """`path` as this package names tables: an absolute folder of this machine, which may be a mounted one, or an
    object store's address; WrongTable for another scheme."""
    if path.startswith("file:"):
        path = path.removeprefix("file://").removeprefix("file:")
    scheme, given, rest = path.partition("://")
    if not given:
        return str(Path(path).absolute())
    if scheme not in ARROW_SCHEMES:
        raise WrongTable(
            f"{path}: tables are written to folders and to {', '.join(ARROW_SCHEMES)}; give one of them"
        )
    if not rest.strip("/"):
        raise WrongTable(f"{path}: which folder? Give {scheme}://BUCKET/FOLDER")
    if scheme in HADOOP_SCHEMES and (not _PLAIN.fullmatch(rest) or unquote(rest) != rest):
        raise WrongTable(
            f"{path}: delta-rs finds a table at {scheme}:// again only under a plain name: letters, digits,"
            " and any of . _ - + = ,"
        )
    return path.rstrip("/")


@dataclass(frozen=True)
class TableFolder:
    """The folder of one table; paths are relative to it."""

    path: str

    def new_file(self, path: str) -> NewFile:
        if is_remote(self.path):
            files, inner = self._place(path)
            return _NewObject(files, inner, hidden=self.path.startswith(_RENAMED))
        return _HiddenFile(Path(self.path, path))

    def open(self, path: str) -> Any:
        """A file for Parquet's readers; raises FileNotFoundError."""
        files, inner = self._place(path)
        return files.open_input_file(inner)

    def delete(self, path: str) -> None:
        """It may be gone already."""
        files, inner = self._place(path)
        with suppress(FileNotFoundError):
            files.delete_file(inner)

    @property
    def files(self) -> Any:
        """pyarrow's file system whose root it is."""
        files, inner = self._place("")
        return fs.SubTreeFileSystem(inner, files)

    def data_files(self) -> Iterator[str]:
        """The paths of what is in the partitions' folders, hidden or not."""
        if is_remote(self.path):
            # Google's store, by pyarrow, lists no folder that nobody has made as such; one listing is fewer, too.
            found = (path.removeprefix("/") for path in self._below(""))
            yield from (path for path in found if "/" in path and not is_aside(path))
            return
        for top in self._list(""):
            if top.type is fs.FileType.Directory and not is_aside(top.base_name):
                yield from self._below(top.base_name)

    def commits(self) -> Iterator[str]:
        """The texts of Delta's commits that are still there."""
        for item in self._list(LOG_FOLDER):
            if item.base_name.endswith(".json"):
                with self.open(f"{LOG_FOLDER}/{item.base_name}") as file:
                    yield file.read().decode()

    def commit(self, version: int) -> bytes:
        """One of them; raises FileNotFoundError."""
        with self.open(f"{LOG_FOLDER}/{version:020}.json") as file:
            text: bytes = file.read()
            return text

    def has_others(self) -> bool:
        """Is there a file in its place, or something in it that isn't aside?"""
        files, inner = self._place("")
        found = files.get_file_info(inner)
        if found.type is fs.FileType.File:
            return True
        if any(not is_aside(item.base_name) for item in self._list("")):
            return True
        # What Google's store doesn't list (see data_files) can have files.
        return is_remote(self.path) and any(not is_aside(path.lstrip("/")) for path in self._below(""))

    def _below(self, path: str) -> Iterator[str]:
        files, inner = self._place(path)
        start = len(inner.rstrip("/")) + 1
        for item in files.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True)):
            if item.type is fs.FileType.File:
                yield f"{path}/{item.path[start:]}"

    def _list(self, path: str) -> list[Any]:
        files, inner = self._place(path)
        found: list[Any] = files.get_file_info(fs.FileSelector(inner, allow_not_found=True))
        return found

    def _place(self, path: str) -> tuple[Any, str]:
        files, root = _filesystem(self.path)
        return files, f"{root}/{path}" if path else root


def is_aside(name: str) -> bool:
    """Is it a name that Delta ignores: the landing's own state, or a log folder that another run just made?"""
    return name.startswith(("_", "."))


def _filesystem(path: str) -> tuple[Any, str]:
    """The file system of a table, and its path there."""
    return arrow_filesystem(path) if is_remote(path) else (fs.LocalFileSystem(), path)


class _HiddenFile:
    def __init__(self, path: Path) -> None:
        self._final = path
        self._hidden = path.with_name(UNFINISHED + path.name)
        self.sink: Any = self._hidden
        path.parent.mkdir(parents=True, exist_ok=True)

    def finish(self) -> tuple[int, int]:
        with self._hidden.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(self._hidden, self._final)
        found = self._final.stat()
        return found.st_size, found.st_mtime_ns // 1_000_000

    def abandon(self) -> None:
        self._hidden.unlink(missing_ok=True)


class _NewObject:
    def __init__(self, files: Any, path: str, *, hidden: bool) -> None:
        self._files = files
        self._final = path
        folder, _, name = path.rpartition("/")
        self._path = f"{folder}/{UNFINISHED}{name}" if hidden else path
        self.sink: Any = files.open_output_stream(self._path)

    def finish(self) -> tuple[int, int]:
        self.sink.close()
        if self._path != self._final:
            self._files.move(self._path, self._final)
        found = self._files.get_file_info(self._final)
        return found.size, found.mtime_ns // 1_000_000

    def abandon(self) -> None:
        # There is no way to take back what was written: it becomes an object, which is then deleted.
        self.sink.close()
        self._files.delete_file(self._path)
