"""An Iceberg catalog of a test's own: SQLite in a folder, with the tables' files beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pyiceberg import catalog
from pyiceberg.utils.config import Config

NAME = "lake"


def settings(folder: Path) -> dict[str, str]:
    """The environment in which pyiceberg finds the catalog `lake` in this folder."""
    before = f"PYICEBERG_CATALOG__{NAME.upper()}__"
    return {
        f"{before}TYPE": "sql",
        f"{before}URI": f"sqlite:///{folder}/catalog.db",
        f"{before}WAREHOUSE": f"file://{folder}/warehouse",
        "PYICEBERG_HOME": str(folder),
    }


@contextmanager
def iceberg_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """The same for this process, whose pyiceberg has read its environment already."""
    with patch.dict("os.environ", settings(folder)), patch.object(catalog, "_ENV_CONFIG", Config()):
        yield settings(folder)
