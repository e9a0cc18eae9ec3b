"""Azure's blobs on a free port: Microsoft's Azurite, from npm, which keeps them in memory.

with azurite(folder) as environment:
    os.environ |= environment
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.npmpackages import NpmPackage
from tests.support.processgroup import process_group, when_started

PACKAGE = NpmPackage("azurite", "3.37.0")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's own, which everybody knows."""
START_SECONDS = 60.0
_LISTENS = re.compile(r"listens on (http://\S+)")


@contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which everything that speaks of Azure's stores finds this one, which is empty. folder: of
    its log"""
    log = folder / "azurite.log"
    command = ["node", str(PACKAGE.installed / "dist/src/blob/main.js"), "--blobPort", "0"]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with log.open("w") as output, process_group(*command, stdout=output, stderr=subprocess.STDOUT) as server:
        found = when_started(server, log, lambda: _LISTENS.search(log.read_text()), START_SECONDS)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"{found[1]}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }
