"""npm's ali-ons, a RocketMQ client in JavaScript, at the other end of a pipe: tests/interop/node/ons.js.

The package is fetched once by npm into the user's cache folder, as RocketMQ's jars are by Maven. Of the clients
that aren't Java's it is the one that needs nothing beside its registry: PyPI's `rocketmq` wants a native
library that no registry has.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

from testbed import javarocketmq
from testbed.processes import REPOSITORY
from tests.support.clientprogram import ClientProgram

PACKAGE, VERSION = "ali-ons", "3.12.0"
SCRIPT = REPOSITORY / "tests" / "interop" / "node" / "ons.js"
FETCH_SECONDS = 180.0


def folder() -> Path:
    return javarocketmq.cache_folder().parent / f"{PACKAGE}-{VERSION}"


@functools.cache
def unavailable() -> str | None:
    """None if the client can run here, else the reason why not. Fetches it the first time."""
    if shutil.which("node") is None:
        return "no node on the PATH"
    if (folder() / "complete").exists():
        return None
    if shutil.which("npm") is None:
        return f"no npm on the PATH and no {PACKAGE} {VERSION} in {folder()}"
    folder().mkdir(parents=True, exist_ok=True)
    with open(folder() / "fetch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetch()


def _fetch() -> str | None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder())]
    try:
        done = subprocess.run(
            [*command, f"{PACKAGE}@{VERSION}"], capture_output=True, text=True, timeout=FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"npm took longer than {FETCH_SECONDS:g} s for {PACKAGE} {VERSION}"
    if done.returncode:
        return f"npm can't fetch {PACKAGE} {VERSION}: {done.stderr.strip()[-300:]}"
    (folder() / "complete").touch()
    return None


class NodeClient(ClientProgram):
    """The script, told of one name server."""

    def __init__(self, where: Path, namesrv: str) -> None:
        modules = folder() / "node_modules"
        super().__init__("ons", where, ["env", f"NODE_PATH={modules}", "node", str(SCRIPT), namesrv])
