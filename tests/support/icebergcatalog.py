"""An Iceberg catalog of a test's own: SQLite in a folder, with the tables' files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pyiceberg import catalog
from pyiceberg.utils.config import Config

NAME = "lake"
BEFORE = f"PYICEBERG_CATALOG__{NAME.upper()}__"
"""What names of variables begin with that say how the catalog is."""


def settings(folder: Path) -> dict[str, str]:
    """The environment in which pyiceberg finds the catalog `lake` in this folder."""
    return {
        f"{BEFORE}TYPE": "sql",
        f"{BEFORE}URI": f"sqlite:///{folder}/catalog.db",
        f"{BEFORE}WAREHOUSE": f"file://{folder}/warehouse",
        "PYICEBERG_HOME": str(folder),
    }


def iceberg_at_s3(warehouse: str, server: dict[str, str]) -> dict[str, str]:
    """What the environment of a catalog has besides, if its tables are at an object store.

    - warehouse: address
    - server: the environment in which S3 is found
    """
    return {
        f"{BEFORE}WAREHOUSE": warehouse,
        f"{BEFORE}S3__ENDPOINT": server["AWS_ENDPOINT_URL"],
        f"{BEFORE}S3__REGION": server["AWS_REGION"],
    }


@contextmanager
def found_in(environment: dict[str, str]) -> Iterator[None]:
    """Let this process, whose pyiceberg has read its environment already, find catalogs as this one says."""
    with patch.dict("os.environ", environment), patch.object(catalog, "_ENV_CONFIG", Config()):
        yield


@contextmanager
def iceberg_catalog(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """The environment in which pyiceberg finds the catalog, here and in processes that get it.

    - folder: where the catalog is
    - more: what the environment has besides, or otherwise
    """
    environment = settings(folder) | dict(more or {})
    with found_in(environment):
        yield environment
