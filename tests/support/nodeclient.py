"""npm's ali-ons, a RocketMQ client in JavaScript, at the other end of a pipe: tests/interop/node/ons.js.

The package is fetched once by npm into the user's cache folder, as RocketMQ's jars are by Maven. Of the clients
that aren't Java's it is the one that needs nothing beside its registry: PyPI's `rocketmq` wants a native
library that no registry has.
"""

from __future__ import annotations

from pathlib import Path

from testbed.npmpackages import NpmPackage
from testbed.processes import REPOSITORY
from tests.support.clientprogram import ClientProgram

PACKAGE = NpmPackage("ali-ons", "3.12.0")
SCRIPT = REPOSITORY / "tests" / "interop" / "node" / "ons.js"


class NodeClient(ClientProgram):
    """The script, told of one name server."""

    def __init__(self, where: Path, namesrv: str) -> None:
        modules = PACKAGE.folder / "node_modules"
        super().__init__("ons", where, ["env", f"NODE_PATH={modules}", "node", str(SCRIPT), namesrv])
