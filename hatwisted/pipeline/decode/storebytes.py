"""The bytes of files in folders, local or anywhere fsspec can reach; nothing here knows what they mean.

A path with a scheme (`s3://bucket/store`) goes through fsspec, which is imported only then; any other through the
operating system, whose `preadv` fills an existing buffer. Addresses and accounts come from where each store's own
tools look: for S3 `AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`, the machine's role and so on. Hadoop's
stores are hdfs-native's where that's installed (hadoopfiles.py), else pyarrow's by Hadoop's own libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from hatwisted.pipeline.decode.azurefiles import AZURE_SCHEMES, azure_options
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongLogFile, said

ARROW_SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
"""Of object stores that pyarrow reaches by itself."""
HADOOP_SCHEMES: Final = ("hdfs", "viewfs")
"""Whose files are there while they are written, and can be renamed."""
GOOGLE_SECONDS: Final = 60
"""For which a request to Google's store is tried again. pyarrow's own 15 minutes are spent without a word where
there are no credentials, too."""


class LogBytes(Protocol):
    """One open file."""

    @property
    def size(self) -> int:
        """Its bytes."""

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill `target` with what lies at `position`; how many bytes there were, fewer only at the file's end."""


class Entry(NamedTuple):
    """What a folder holds: `size` in bytes, None for a folder."""

    name: str
    size: int | None


class _LocalFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read_into(self, target: memoryview, position: int) -> int:
        done = 0
        while done < len(target):
            count = os.preadv(self._descriptor, [target[done:]], position + done)
            if not count:
                break
            done += count
        return done


class _RemoteFile:
    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self.size = size

    def read_into(self, target: memoryview, position: int) -> int:
        wanted = min(len(target), self.size - position)
        if wanted <= 0:
            return 0
        self._file.seek(position)
        data = self._file.read(wanted)
        target[: len(data)] = data
        return len(data)


@contextmanager
def open_file(path: str) -> Iterator[LogBytes]:
    """A file to read from; WrongLogFile when it went away since it was listed."""
    try:
        if is_remote(path):
            files, inner = remote_filesystem(path)
            with files.open(inner, "rb", cache_type="none") as file:
                yield _RemoteFile(file, files.size(inner))
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise WrongLogFile(
            f"{path}: doesn't exist any more; its broker may have deleted it as expired: list the store again"
        ) from None
    try:
        yield _LocalFile(descriptor)
    finally:
        os.close(descriptor)


def read(file: LogBytes, position: int, size: int) -> bytes:
    """Bytes of a file; fewer only at its end, none beyond it.

    - file: open
    - position: of the first byte
    - size: how many
    """
    size = max(0, min(size, file.size - position))
    data = bytearray(size)
    return bytes(data[: file.read_into(memoryview(data), position)]) if size else b""


def list_folder(path: str) -> list[Entry] | None:
    """What is in a folder, by name; None if there's no such folder."""
    if is_remote(path):
        return _list_remote(path)
    try:
        with os.scandir(path) as found:
            items = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise NotAStore(f"{path}: no permission to list it") from None
    return sorted(entry for item in items if (entry := _entry(item)) is not None)


def _entry(item: os.DirEntry[str]) -> Entry | None:
    """None for what went away since it was listed, as a file that its broker deletes, and for a broken link."""
    try:
        return Entry(item.name, None if item.is_dir() else item.stat().st_size)
    except FileNotFoundError:
        return None


def is_remote(path: str) -> bool:
    """Does the path have a scheme, so that fsspec has to open it?"""
    return "://" in path


def join(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def _list_remote(path: str) -> list[Entry] | None:
    files, inner = remote_filesystem(path)
    # Most file systems cache listings, and a log grows.
    files.invalidate_cache(inner)
    try:
        if not files.isdir(inner):
            return None
        found = files.ls(inner, detail=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PipelineError(f"{path}: {_why_not(path, error)}") from error
    return sorted(
        Entry(
            item["name"].rstrip("/").rpartition("/")[2], None if item["type"] == "directory" else item["size"]
        )
        for item in found
    )


def address_parts(address: str) -> tuple[str, str, str]:
    """(its scheme, the bucket or host, what is below that)"""
    scheme, _, rest = address.partition("://")
    place, _, below = rest.partition("/")
    return scheme, place, below


def remote_filesystem(path: str) -> tuple[Any, str]:
    """fsspec's file system for a path with a scheme, and the path as that one calls it. Where fsspec lacks the
    package for it (s3fs, gcsfs, adlfs), pyarrow's own is taken."""
    try:
        import fsspec
    except ImportError:
        raise PipelineError(f"{path}: a path with a scheme needs fsspec: pip install fsspec") from None
    scheme, place, below = address_parts(path)
    if scheme in HADOOP_SCHEMES and (native := hadoop_files(scheme, place)) is not None:
        return native, f"/{below}"
    try:
        files, inner = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        # A scheme that needs another package, or an unknown one.
        if scheme in ARROW_SCHEMES:
            from fsspec.implementations.arrow import ArrowFSWrapper

            found, inner = _on_arrow(path, path)
            if scheme == "gs":
                from hatwisted.pipeline.decode.googlefiles import GoogleFiles

                return GoogleFiles(found), inner
            return ArrowFSWrapper(found), inner
        raise PipelineError(f"{path}: {error}") from None
    except OSError as error:
        raise PipelineError(f"{path}: {_why_not(path, error)}") from error
    return files, inner


def arrow_filesystem(address: str) -> tuple[Any, str]:
    """pyarrow's file system for an address with one of ARROW_SCHEMES, and the path as that one calls it. What is
    escaped in it (`%20`) is meant, as delta-rs has it; in the paths of logs each character stands for itself."""
    return _on_arrow(address, unquote(address))


def _on_arrow(given: str, path: str) -> tuple[Any, str]:
    """`path` with its file system, whose bucket is that of `given`, which is shown in errors."""
    from pyarrow import ArrowException

    scheme, place, _ = address_parts(given)
    try:
        files, root = bucket_filesystem(scheme, place)
    except (ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{given}: {_why_not(given, error)}") from error
    _, _, below = address_parts(path)
    return files, f"{root}/{below}".rstrip("/") if below else root or "/"


@lru_cache(maxsize=8)
def bucket_filesystem(scheme: str, place: str) -> tuple[Any, str]:
    """pyarrow's file system of a bucket, container or name node, and the path of that. It's kept: each has
    connections and threads of its own."""
    from pyarrow.fs import AzureFileSystem, FileSystem, FSSpecHandler, PyFileSystem

    if scheme in AZURE_SCHEMES:
        options, root = azure_options(f"{scheme}://{place}", os.environ)
        return AzureFileSystem(**options), root
    if scheme in HADOOP_SCHEMES and (native := hadoop_files(scheme, place)) is not None:
        return PyFileSystem(FSSpecHandler(native)), ""
    query = f"?retry_limit_seconds={GOOGLE_SECONDS}" if scheme == "gs" else ""
    files, root = FileSystem.from_uri(f"{scheme.replace('s3a', 's3')}://{place}/{query}")
    return files, root.rstrip("/")


@lru_cache(maxsize=8)
def hadoop_files(scheme: str, place: str) -> Any:
    """fsspec's file system of a name node by hdfs-native; None where that isn't installed."""
    try:
        from hatwisted.pipeline.decode.hadoopfiles import HadoopFiles
    except ImportError:
        return None
    try:
        return HadoopFiles(scheme, place)
    except (OSError, ValueError) as error:
        path = f"{scheme}://{place}"
        raise PipelineError(f"{path}: {_why_not(path, error)}") from error


def _why_not(path: str, error: Exception) -> str:
    """What a library says of a path, in one line. Of Java's and Hadoop's it names each place it has looked at."""
    told, scheme = said(error), path.partition("://")[0]
    missing = next((name for name in ("libjvm", "libhdfs") if f"load {name}" in told), None)
    if missing is None or scheme not in HADOOP_SCHEMES:
        return told
    return (
        f'{scheme}:// needs hdfs-native: pip install "hatwisted[hdfs]" (without it, Java and Hadoop\'s client, of'
        f" which {missing} isn't found: JAVA_HOME, HADOOP_HOME, and CLASSPATH from `hadoop classpath --glob`)"
    )
