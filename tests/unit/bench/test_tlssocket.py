"""The load generator's TLS, with Python's own at the other end."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.tlssocket import READ_BYTES, TlsSocket
from tests.support.certificate import server_certificate

SECONDS = 30.0
PIECE = bytes(range(256)) * 240  # four records


class TlsSocketTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.mktemp())
        folder.mkdir()
        server_certificate().write(folder, "server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.settimeout(SECONDS)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(PIECE))
            self.addCleanup(each.close)
        self.below, found = theirs, []
        shaking = threading.Thread(
            target=lambda: found.append(context.wrap_socket(theirs.dup(), server_side=True)), daemon=True
        )
        shaking.start()
        self.tls = TlsSocket(ours)
        shaking.join(SECONDS)
        (self.peer,) = found
        self.addCleanup(self.peer.close)
        self.tls.setblocking(False)

    def received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.peer.recv(size - len(data))
        return data

    def test_several_records_leave_in_one_piece(self) -> None:
        self.assertEqual(self.tls.send(memoryview(PIECE)), len(PIECE))
        self.assertGreater(len(self.below.recv(READ_BYTES, socket.MSG_PEEK)), len(PIECE))
        self.assertEqual(self.received(len(PIECE)), PIECE)

    def test_what_the_kernel_has_not_taken_is_sent_once(self) -> None:
        sent, said = b"", 0
        for number in range(256):
            try:
                said += self.tls.send(memoryview(PIECE)[: 20_000 + number])
                sent += PIECE[: 20_000 + number]
            except BlockingIOError:
                break
        else:
            self.fail("never full")
        self.assertEqual(len(sent), said)
        self.assertEqual(self.received(said), sent)
        taken = self.tls.send(memoryview(PIECE))  # more is there by now: the piece under way comes first
        self.assertEqual(taken, 20_000 + number)
        self.assertEqual(self.received(taken), PIECE[:taken])

    def test_all_that_has_come_is_given_in_one_read(self) -> None:
        self.assertRaises(BlockingIOError, self.tls.recv, READ_BYTES)
        while True:  # tickets for later sessions come first, and are no data
            try:
                self.tls.recv(READ_BYTES)
            except BlockingIOError:
                break
        self.peer.sendall(PIECE)
        self.assertEqual(self.tls.recv(READ_BYTES), PIECE)

    def test_the_end(self) -> None:
        self.peer.close()
        self.below.close()
        for _ in range(5):
            try:
                self.assertEqual(self.tls.recv(READ_BYTES), b"")
                return
            except BlockingIOError:
                continue
        self.fail("no end")
