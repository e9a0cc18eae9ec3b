"""A slave's start: on a port that another server may take in between, and whether it runs already."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.newslave import (
    CONNECT_TIMEOUT,
    MOST_STARTS,
    START_TIMEOUT,
    PortTaken,
    answers,
    change_port,
    check_connects,
    free_port,
    is_served,
    start,
    start_where_free,
)
from hatwisted.cli.errors import CannotRun

TAKEN = "haslave: broker.conf:4: listenPort: can't listen on 0.0.0.0:10911: Address already in use\n"
WRONG = "haslave: broker.conf:2: flushDiskType: can't be 'SYNC'\n"


class StartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.moves: list[int] = []
        self.starts = 0

    def start(self, *said: str) -> int:
        """Starts that say this, one after the other; an empty text is one that works."""
        answers = iter(said)

        def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
            self.starts += 1
            text = next(answers)
            return subprocess.CompletedProcess([], 1 if text else 0, "", text)

        def free(first: int) -> int:
            return free_port(first, lambda port: port != 10931)

        return start_where_free(10911, lambda: start(Path("/copy"), run), self.moves.append, free)

    def test_the_port_stays_where_nobody_has_come(self) -> None:
        self.assertEqual(self.start(""), 10911)
        self.assertEqual(self.moves, [])

    def test_another_port_is_tried_where_somebody_has(self) -> None:
        self.assertEqual(self.start(TAKEN, TAKEN, ""), 10941)
        self.assertEqual(self.moves, [10921, 10941])

    def test_somebody_who_always_is_first_is_told_of(self) -> None:
        error = self.assertRaises(PortTaken, self.start, *[TAKEN] * 9)
        self.assertEqual(self.starts, MOST_STARTS)
        self.assertIn("Address already in use", str(error))

    def test_what_another_port_doesnt_mend_is_told_at_once(self) -> None:
        error = self.assertRaises(CannotRun, self.start, WRONG)
        self.assertNotIsInstance(error, PortTaken)
        self.assertEqual((self.starts, self.moves), (1, []))


class PatienceTests(SynchronousTestCase):
    def test_twistd_has_so_long_for_its_start(self) -> None:
        def run(*_: object, timeout: float, **__: object) -> subprocess.CompletedProcess[str]:
            raise subprocess.TimeoutExpired("twistd", timeout)

        error = self.assertRaises(CannotRun, start, Path("/copy"), run)
        self.assertIn(f"timed out after {START_TIMEOUT} seconds", str(error))

    def test_a_master_that_says_nothing_is_waited_for_so_long(self) -> None:
        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            waited.append(timeout)
            raise TimeoutError("timed out")

        waited: list[float] = []
        self.patch(socket, "create_connection", connect)
        self.assertFalse(answers("10.0.0.1:10911"))
        error = self.assertRaises(CannotRun, check_connects, "10.0.0.1:10912")
        self.assertIn("can't be reached from here: timed out", str(error))
        self.assertEqual(waited, [CONNECT_TIMEOUT] * 2)


class FileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()

    def test_a_store_without_a_lock_or_with_a_free_one_isnt_served(self) -> None:
        self.assertFalse(is_served(str(self.folder)))
        (self.folder / "lock").write_bytes(b"lock")
        self.assertFalse(is_served(str(self.folder)))

    def test_the_port_changes_and_nothing_else(self) -> None:
        conf = self.folder / "broker.conf"
        conf.write_text("# listenPort=1\nlistenPort=10911\nhaAck=durable\n")
        change_port(conf, 10921)
        self.assertEqual(conf.read_text(), "# listenPort=1\nlistenPort=10921\nhaAck=durable\n")
