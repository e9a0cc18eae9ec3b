"""Iceberg's own REST catalog server, by Maven: what its project tests REST clients with, on a catalog in SQLite.

    with rest_catalog(folder) as environment:
        load_catalog("lake")

Its files lie in the folder `warehouse`, as those of `iceberg_catalog`.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.mavenjars import MavenJars
from tests.support.icebergcatalog import BEFORE, found_in
from tests.support.processgroup import process_group

ICEBERG, JETTY, HADOOP = "1.11.0", "12.1.1", "3.5.0"
JARS = MavenJars(
    "iceberg-rest",
    "org.apache.iceberg",
    ("iceberg-core",),
    ICEBERG,
    others=[
        f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
        f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:test-fixtures",
        f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
        *(f"org.eclipse.jetty.compression:jetty-compression-{each}:{JETTY}" for each in ("server", "gzip")),
        *(f"org.apache.hadoop:hadoop-client-{each}:{HADOOP}" for each in ("api", "runtime")),
        "org.xerial:sqlite-jdbc:3.50.3.0",
        "org.slf4j:slf4j-simple:2.0.17",
    ],
)
SERVER = "org.apache.iceberg.rest.RESTCatalogServer"
LISTENS = re.compile(r"Started .*ServerConnector@.*:(\d+)}")


@contextmanager
def rest_server(folder: Path) -> Iterator[int]:
    """The port of one whose catalog and warehouse are in this folder."""
    settings = {
        "rest.port": "0",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_WAREHOUSE": f"file://{folder}/warehouse",
        "CATALOG_CLIENTS": "1",  # SQLite takes one writer at a time
    }
    command = ("java", "-Xmx256m", "-cp", f"{JARS.install()}/*", SERVER)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with process_group(*command, env=os.environ | settings, **streams) as server:
        assert server.stderr is not None
        told = []
        for line in server.stderr:
            told.append(line)
            if listens := LISTENS.search(line):
                break
        else:
            raise AssertionError("".join(told))
        # What it goes on to say is of no use, but has to be taken.
        reader = threading.Thread(target=deque, args=(server.stderr, 0), daemon=True)
        reader.start()
        try:
            yield int(listens[1])
        finally:
            server.kill()
            reader.join()


@contextmanager
def rest_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which pyiceberg finds the catalog `lake`, here and in processes that get it."""
    with rest_server(folder) as port:
        environment = {
            f"{BEFORE}TYPE": "rest",
            f"{BEFORE}URI": f"http://127.0.0.1:{port}",
            "PYICEBERG_HOME": str(folder),
        }
        with found_in(environment):
            yield environment
