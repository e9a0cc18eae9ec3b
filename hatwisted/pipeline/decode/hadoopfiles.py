"""Hadoop's stores, `hdfs://` and `viewfs://`, by hdfs-native (extra `hdfs`), as delta-rs reaches them, too.

It speaks Hadoop's protocols itself, without Java or Hadoop's libraries, which pyarrow's own way needs. Name
services, mount tables and Kerberos come from `core-site.xml` and `hdfs-site.xml` in HADOOP_CONF_DIR (or
HADOOP_HOME), a user without Kerberos from HADOOP_USER_NAME.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hdfs_native.fsspec import HdfsFileSystem

ATTEMPTS: Final = 7
"""For which a name node that refuses is asked again, as one may be starting: about 45 s. Its own 15 take three
minutes, without a word."""
_REFUSAL: Final = re.compile(r"""RPCError\("[\w.]*?(\w+)", ["'](.*?)(?:\\n|["']\)$)""")
"""What hdfs-native makes of a name node's refusal: its class, its first line, and Java's calls."""


class HadoopFiles(HdfsFileSystem):
    """fsspec's file system of one name node or name service; paths are absolute, no character in them is special.

    - scheme: hdfs or viewfs
    - place: HOST:PORT, a name service, or "" for the configuration's own
    """

    cachable = False  # it's kept by who asks for it

    def __init__(self, scheme: str, place: str) -> None:
        self.protocol = scheme
        options: dict[str, Any] = {"dfs.client.failover.max.attempts": str(ATTEMPTS)}
        super().__init__(place, **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def isdir(self, path: str) -> bool:
        """Only what isn't there is no folder; fsspec's own says so of a name node that can't be reached, too."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        with _errors_of_files():
            return _timed(super().info(path, **more))

    def ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        with _errors_of_files():
            found: list[Any] = super().ls(path, detail, **more)
        return [_timed(each) for each in found] if detail else found

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        """Write a file, whole or not at all, as at an object store.

        - path: its own
        - value: what it shall hold
        - mode: "create" if there may be none
        """
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
        super().pipe_file(draft, value, mode, **more)
        self.mv(draft, path, overwrite=mode == "overwrite")

    def open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        with _errors_of_files():
            return super().open(path, mode, **more)


@contextmanager
def _errors_of_files() -> Iterator[None]:
    """A name node's refusal is an OSError, as of any other file system, and not a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        found = _REFUSAL.match(str(error))
        raise OSError(f"{found[1]}: {found[2]}" if found else str(error)) from error


def _timed(found: dict[str, Any]) -> dict[str, Any]:
    """With the time under the name that pyarrow looks for, in seconds."""
    return found | {"mtime": found["modification_time"] / 1000}
