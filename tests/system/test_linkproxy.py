"""The wire of the tests: to who dials it, nobody behind it is nobody at the port."""

from __future__ import annotations

import socket

import pytest

from testbed.processes import free_port
from tests.support.linkproxy import LinkProxy


def test_who_dials_while_nobody_listens_behind_it_is_reset() -> None:
    """An orderly end would be a word of the master's, to a slave that has reported its offset."""
    with (
        LinkProxy(free_port()) as link,
        socket.create_connection(("127.0.0.1", link.port), 60) as dialled,
        pytest.raises(ConnectionResetError),
    ):
        dialled.recv(1)
    assert link.connections == 0
