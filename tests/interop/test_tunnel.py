"""The tunnel of docs/tls.md for an HA link without TLS of its own: stunnel with the page's two files, between two
of ours and with a RocketMQ broker at either end."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from testbed.brokergroup import JAVA, OURS, SMALL_STORE, BrokerGroup, Kind
from testbed.processes import free_port, wait_until
from tests.interop.conftest import needs, pair_name
from tests.support.certificate import Issued
from tests.support.pages import DOCS, put_in
from tests.support.soak import in_soak

STUNNEL = next(filter(None, map(shutil.which, ("stunnel", "stunnel4"))), None)
pytestmark = [pytest.mark.skipif(STUNNEL is None, reason="needs stunnel (Debian: apt install stunnel4)")]
SECONDS = 60.0
HERE = "foreground = yes\npid =\n"
"""What the test adds: on a host stunnel is a service."""


def files_of_the_page() -> list[str]:
    """The master's and the slave's."""
    section = (DOCS / "tls.md").read_text().partition("### A tunnel")[2].partition("\n## ")[0]
    found = re.findall(r"^```ini\n(\[ha\]\n.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert len(found) == 2
    return found


@contextmanager
def stunnel(folder: Path, name: str, text: str, port: int) -> Iterator[None]:
    """Running, and listening on a port.

    - folder: for its file and its log
    - name: of these
    - text: the file
    """
    assert STUNNEL is not None
    conf = folder / f"{name}.conf"
    conf.write_text(HERE + text)
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([STUNNEL, str(conf)], stdout=log, stderr=log)
    try:
        wait_until(lambda: listens(port), SECONDS, f"{name} listens")
        yield
    finally:
        process.terminate()
        process.wait(SECONDS)


def listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 5)):
        return True
    return False


def certificates(folder: Path) -> None:
    """Of both brokers, and of a stranger."""
    ours = Issued(("ha-ca",), authority=True)
    ours.write(folder, "ha-ca")
    for name in ("broker-a", "broker-a-s"):
        Issued((name,), signed_by=ours).write(folder, name)
    Issued(("broker-a-s",)).write(folder, "stranger")


def passed_on(port: int, folder: Path, name: str | None) -> bool:
    """Does whoever shows this certificate get a word from the master through its tunnel? None: he shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            encrypted.sendall(bytes(8))
            return bool(encrypted.recv(1))
    except OSError:
        return False


@pytest.mark.parametrize(
    "kinds",
    [
        (OURS, OURS),
        *(
            in_soak(pair, why="to stunnel a link is a link")
            for pair in ((OURS, JAVA), (JAVA, OURS), (JAVA, JAVA))
        ),
    ],
    ids=pair_name,
)
def test_a_link_through_it_and_nobody_else(kinds: tuple[Kind, Kind], tmp_path: Path) -> None:
    needs(*kinds)
    certificates(tmp_path)
    at_master, at_slave = free_port(), free_port()
    settings = {**SMALL_STORE, "haAllowList": "127.0.0.1"}
    group = BrokerGroup(tmp_path, *kinds, settings=settings, link_port=at_slave)
    places: Mapping[str, object] = {"/etc/rocketmq": tmp_path, "10912": group.ha_port}
    masters, slaves = files_of_the_page()
    with ExitStack() as stack:
        text = put_in(masters, {**places, "10913": f"127.0.0.1:{at_master}"})
        stack.enter_context(stunnel(tmp_path, "master-tunnel", text, at_master))
        text = put_in(slaves, {"10.0.0.1:10913": f"127.0.0.1:{at_master}"})
        text = put_in(text, {**places, "10913": at_slave})
        stack.enter_context(stunnel(tmp_path, "slave-tunnel", text, at_slave))
        stack.enter_context(group)
        group.start()
        with group.master_client() as client:
            assert client.send("T", b"through the tunnel").code == 0
        group.wait_caught_up()
        # The first is our own look whether it listens.
        assert (tmp_path / "slave-tunnel.log").read_text().count("accepted connection from") >= 2
        assert passed_on(at_master, tmp_path, "broker-a-s")
        assert not passed_on(at_master, tmp_path, "stranger")
        assert not passed_on(at_master, tmp_path, None)
