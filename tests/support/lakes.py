"""A place for tables and logs at each kind of object store, with a server of its own that others wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from hatwisted.pipeline.decode.storebytes import arrow_filesystem, bucket_filesystem
from tests.support.azurite import PACKAGE as AZURITE
from tests.support.azurite import azurite
from tests.support.gcsserver import PACKAGE as FAKE_GCS
from tests.support.gcsserver import gcs_server
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
    bucket_filesystem.cache_clear()  # it has what another environment said
    if scheme == "hdfs":
        _skip_if(no_hdfs())
        with hdfs_cluster(folder) as address:
            yield Lake(f"{address}/lake", address, "hdfs://localhost:1", {})
    elif scheme == "abfs":
        _skip_if(AZURITE.missing())
        with azurite(folder) as environment, patch.dict(os.environ, environment):
            container, path = arrow_filesystem("abfs://lake")
            container.create_dir(path)
            yield Lake("abfs://lake", "abfs://lake", "abfs://no-such-container", environment)
    elif scheme == "gs":
        _skip_if(FAKE_GCS.missing())
        with gcs_server("lake", folder) as environment:
            yield Lake("gs://lake", "gs://lake", "gs://no-such-bucket", environment)
    else:
        with s3_server("lake") as environment:
            yield Lake("s3://lake", "s3://lake", "s3://no-such-bucket", environment)


def _skip_if(reason: str | None) -> None:
    if reason is not None:
        pytest.skip(reason)
