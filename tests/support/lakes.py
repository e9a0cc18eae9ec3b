"""A place for tables and logs at each kind of object store, with a server of its own that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.hdfscluster import hdfs_cluster, no_hdfs
from tests.support.s3server import s3_server


class Lake(NamedTuple):
    """One.

    - address: of the folder in which tests make others
    - root: what is no folder of anybody's
    - nowhere: such a root that isn't there
    - environment: in which all that speaks the scheme finds it
    """

    address: str
    root: str
    nowhere: str
    environment: dict[str, str]


@contextmanager
def lake_of(scheme: str, folder: Path) -> Iterator[Lake]:
    """Skips where the server can't be had, and says why. folder: for what it keeps"""
    if scheme == "hdfs":
        _skip_if(no_hdfs())
        with hdfs_cluster(folder) as address:
            yield Lake(f"{address}/lake", address, "hdfs://localhost:1", {})
    else:
        with s3_server("lake") as environment:
            yield Lake("s3://lake", "s3://lake", "s3://no-such-bucket", environment)


def _skip_if(reason: str | None) -> None:
    if reason is not None:
        pytest.skip(reason)
