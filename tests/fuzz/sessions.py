"""Strangers' sessions with real servers, over sockets: whole and broken frames, cut, reordered, pipelined, read or
not, on every port. Where servers ask for accounts they come through a proxy, signed or not.

What is sent is made of a seed: requests as `servertargets` makes them, all codes with fields and bodies of which
most get past the first look, and what `mutation` makes of those; on the HA port reports. How far the server has
come meanwhile isn't decided by the seed, so no two runs are alike.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Self

from hatwisted.wire.remoting import encode_command
from tests.fuzz.closedtargets import HEADERS, HONEST_HEADER
from tests.fuzz.mutation import mutated
from tests.fuzz.servertargets import Program
from tests.unit.acl.files import OTHER_SECRET, SAMPLE, USER

STRANGER = "127.0.0.2"
"""Where they come from: no address of which a server has heard."""
ACCOUNTS = SAMPLE.replace(b"- 10.10.103.*", b"- 127.0.0.1")
"""Of servers that ask for them; honest clients are at home and need none."""
PIECES = 30
"""Of a session, at most."""
TIMEOUT = 2.0
"""Seconds for one piece, if the server takes it slowly."""
RESET = struct.pack("ii", 1, 0)


class Session:
    """One connection.

    - random: decides
    - port: of the server
    - replicates: is it the HA port?
    - closed: does the server ask for accounts, and a proxy's header of whoever comes from STRANGER?
    """

    def __init__(self, random: Random, port: int, replicates: bool, *, closed: bool = False) -> None:
        self._random = random
        self._port = port
        self._replicates = replicates
        self._closed = closed and not replicates
        self.pieces = 0

    def run(self) -> None:
        random = self._random
        with contextlib.suppress(OSError), socket.socket() as peer:
            peer.settimeout(TIMEOUT)
            peer.bind((STRANGER, 0))
            peer.connect(("127.0.0.1", self._port))
            if self._closed:
                peer.sendall(self._header())
            for _ in range(random.randint(1, PIECES)):
                peer.sendall(self._piece())
                self.pieces += 1
                match random.randrange(8):
                    case 0:
                        time.sleep(random.random() / 20)
                    case 1 | 2 | 3:
                        peer.settimeout(0.02)
                        with contextlib.suppress(TimeoutError):
                            peer.recv(1 << 16)
                        peer.settimeout(TIMEOUT)
            match random.randrange(3):
                case 0:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                case 1:
                    peer.shutdown(socket.SHUT_WR)
                    peer.recv(1)

    def _piece(self) -> bytes:
        random = self._random
        made = [self._report() if self._replicates else self._request() for _ in range(random.randint(1, 8))]
        match random.randrange(6):
            case 0:
                return mutated(random, made)
            case 1:
                whole = b"".join(made)
                return whole[: random.randrange(len(whole))]
            case 2:
                random.shuffle(made)
                return b"".join(made)[random.randrange(3) :]
        return b"".join(made)

    def _header(self) -> bytes:
        header = self._random.choice((*HEADERS, HONEST_HEADER))
        return header if self._random.randrange(6) else mutated(self._random, [header])

    def _request(self) -> bytes:
        request = Program(self._random.randbytes(self._random.randint(4, 200))).request()
        signer = self._random.choice((USER, USER, OTHER_SECRET, None)) if self._closed else None
        if signer is not None:
            signer.sign(request)
        return encode_command(request)

    def _report(self) -> bytes:
        offset = self._random.choice(
            (0, 1, -1, self._random.randrange(1 << 20), self._random.getrandbits(62))
        )
        return struct.pack(">q", offset)


class Strangers:
    """Sessions, some at a time, from `with` on until it ends.

    - ports: of the servers -> is it an HA port?
    - seed: decides what is sent
    - threads: sessions at a time
    - closed: as of a Session
    """

    def __init__(
        self, ports: Mapping[int, bool], seed: int, threads: int = 3, *, closed: bool = False
    ) -> None:
        self.sessions: Counter[int] = Counter()
        """Of each port."""
        self.pieces = 0
        self._ports = list(ports.items())
        self._closed = closed
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(Random(f"{seed}/{number}"),))
            for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, random: Random) -> None:
        while not self._over.is_set():
            port, replicates = random.choice(self._ports)
            session = Session(random, port, replicates, closed=self._closed)
            session.run()
            self.sessions[port] += 1
            self.pieces += session.pieces
