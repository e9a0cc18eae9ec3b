"""What the servers' rooms may reach by themselves: looked up in the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import hatwisted

SERVER_ROOMS = (
    "assembly",
    "broker",
    "config",
    "ha",
    "logcodec",
    "namesrv",
    "remoting",
    "store",
    "timing",
    "wire",
)
IMPLEMENTATIONS = {
    "store/disk/filesystem.py",
    "store/disk/sparedescriptors.py",
    "store/disk/worker.py",
    "remoting/tcp.py",
}
"""The real sides of the seams; whoever makes them is above."""

COMMAND_LINE = {"config/load.py", "config/values.py"}
"""What an operator gives counts from the folder that the command is given in."""

FORBIDDEN = {
    "twisted.internet.reactor",
    "twisted.internet.endpoints.HostnameEndpoint",
    "twisted.internet.endpoints.TCP4ClientEndpoint",
    "hatwisted.remoting.tcp.TcpConnecting",
    "hatwisted.store.disk.filesystem.PosixFileSystem",
    "hatwisted.store.disk.worker.ThreadWorker",
    "socket.gethostbyname",
    "socket.getaddrinfo",
    "socket.gethostname",
    "datetime.datetime.fromtimestamp",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "time",
    "random.random",
    "random.randrange",
    "random.choice",
    "uuid.uuid4",
}
ALLOWED_FROM = {"random": {"Random"}}
"""Types that a part may be of."""

ALLOWED_OF_OS = {"os.path", "os.path.basename", "os.path.dirname", "os.path.join"}
"""What only works on names."""


def sources(rooms: tuple[str, ...]) -> Iterator[tuple[str, ast.Module]]:
    """(path below the package, syntax tree)"""
    root = Path(hatwisted.__path__[0])
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            yield str(path.relative_to(root)), ast.parse(path.read_text())


def names_used(tree: ast.Module) -> Iterator[str]:
    """Dotted names of whatever a module imports, or reaches through what it has imported."""
    known: dict[str, str] = {}
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name] = alias.name
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            first, _, rest = dotted.partition(".")
            if first in known:
                yield f"{known[first]}.{rest}"


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def is_forbidden(name: str) -> bool:
    """Does it reach a clock, a disk, a network or chance of this process?"""
    module, _, last = name.rpartition(".")
    if last in ALLOWED_FROM.get(module, ()):
        return False
    if name == "os" or name.startswith("os."):
        return name not in ALLOWED_OF_OS
    return name in FORBIDDEN or module == "time"


class SeamTests(SynchronousTestCase):
    def test_servers_take_reactor_clock_disk_network_and_chance_from_their_parts(self) -> None:
        found = [
            (path, name)
            for path, tree in sources(SERVER_ROOMS)
            if path not in IMPLEMENTATIONS | COMMAND_LINE
            for name in names_used(tree)
            if is_forbidden(name)
        ]
        self.assertEqual(found, [])

    def test_the_look_finds_each_way_to_reach_them(self) -> None:
        for source in (
            "from twisted.internet import reactor",
            "import time\ntime.time()",
            "from time import monotonic",
            "import random\nrandom.choice([1])",
            "from datetime import datetime\ndatetime.now()",
            "import datetime as d\nd.datetime.now()",
            "from datetime import datetime\ndatetime.fromtimestamp(1)",
            "import socket\nsocket.gethostbyname('x')",
            "import os\nos.getpid()",
            "from os.path import isdir",
            "import os\nos.path.exists('x')",
            "def later():\n    from hatwisted.store.disk.filesystem import PosixFileSystem",
        ):
            self.assertTrue(any(map(is_forbidden, names_used(ast.parse(source)))), source)
        for source in ("from random import Random", "from os.path import join"):
            self.assertFalse(any(map(is_forbidden, names_used(ast.parse(source)))), source)
