"""A node whose start fails half-way can be stopped all the same, and leaves nothing behind: no timer, no lock, no
port, no open file, no thread."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import build_name_server, stacked
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole, NamesrvConfig
from hatwisted.store.errors import DamagedLog
from hatwisted.tap.embedded import build_master
from tests.support.faultyfs import FaultyFileSystem
from tests.support.manualworker import ManualWorker
from tests.support.memorynode import MemoryNodes

HOST, NAMES = "10.0.0.1", "10.0.0.9"
REMOTING, VIP, HA = 10911, 10909, 10912


class FailedStartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.network = self.nodes.network
        self.workers: list[ManualWorker] = []
        self.fs = FaultyFileSystem()
        self.idle = len(self.nodes.clock.getDelayedCalls())

    def make_worker(self, name: str, threads: int) -> ManualWorker:
        self.workers.append(ManualWorker())
        return self.workers[-1]

    def parts(self, host: str) -> Any:
        return self.nodes.parts(host, make_worker=self.make_worker, file_system=self.fs)

    def broker(self, role: BrokerRole = BrokerRole.ASYNC_MASTER) -> Any:
        config = self.nodes.config(
            HOST, broker_role=role, broker_id=int(role is BrokerRole.SLAVE), message_index_enable=True,
            max_hash_slot_num=100, max_index_num=100,
        )  # fmt: skip
        return build_broker(config, self.parts(HOST))

    def block(self, port: int) -> None:
        """A port that was claimed can't be opened later."""
        self.patch(type(self.network.host(HOST)), "listen", self.refusing(port))

    def refusing(self, refused: int) -> Any:
        listen = type(self.network.host(HOST)).listen

        def listen_or_refuse(host: Any, port: int, *more: Any, **named: Any) -> Any:
            if port == refused:
                raise CannotListenError(HOST, port, OSError(errno.EADDRINUSE, "in use"))
            return listen(host, port, *more, **named)

        return listen_or_refuse

    def stop(self, node: IService) -> None:
        stopped = node.stopService()
        for _ in range(200):
            for worker in self.workers:
                worker.work()
            self.nodes.clock.advance(0.1)
        if stopped is not None:
            self.successResultOf(stopped)

    def assert_nothing_left(self) -> None:
        left = self.nodes.clock.getDelayedCalls()
        self.assertEqual(len(left), self.idle, left)
        self.assertEqual(self.network.claimed, set())
        self.assertEqual(list(self.network.listening), [])
        self.assertEqual([worker.stopped for worker in self.workers], [True] * len(self.workers))
        self.assertEqual(self.open_files(), [])
        self.nodes.folder.joinpath(HOST).mkdir(parents=True, exist_ok=True)
        self.fs.lock(str(self.nodes.folder / HOST / "lock")).release()

    def open_files(self) -> list[str]:
        """Files of this test that this process holds open."""
        open_now = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return [path for path in open_now if path.startswith(str(self.nodes.folder))]

    def check_broker(self, role: BrokerRole, port: int) -> None:
        self.block(port)
        node = self.broker(role)
        self.assertRaises(CannotListenError, node.startService)
        self.stop(node)
        self.assert_nothing_left()

    def test_a_master_without_its_port(self) -> None:
        self.check_broker(BrokerRole.SYNC_MASTER, REMOTING)

    def test_a_master_without_the_port_for_slaves(self) -> None:
        self.check_broker(BrokerRole.SYNC_MASTER, HA)

    def test_a_master_without_the_second_port_for_clients(self) -> None:
        self.check_broker(BrokerRole.ASYNC_MASTER, VIP)

    def test_a_slave_without_its_port(self) -> None:
        self.check_broker(BrokerRole.SLAVE, REMOTING)

    def test_it_starts_again_in_the_same_folder_as_after_a_clean_exit(self) -> None:
        self.check_broker(BrokerRole.ASYNC_MASTER, REMOTING)
        self.assertFalse((self.nodes.folder / HOST / "abort").exists())

    def test_a_log_that_refuses_the_start(self) -> None:
        store = self.nodes.start(HOST, self.parts(HOST), message_index_enable=True, max_hash_slot_num=100,
                                 max_index_num=100)  # fmt: skip
        for _ in range(3):
            self.nodes.send(f"{HOST}:{REMOTING}", b"body")
        self.stop(store)
        log = Path(self.nodes.folder / HOST / "commitlog" / f"{0:020}")
        data = log.read_bytes()
        log.write_bytes(data[:8] + b"\xff" * 8 + data[16:])
        before = self.snapshot()
        node = self.broker()
        self.assertRaises(DamagedLog, node.startService)
        self.stop(node)
        self.assert_nothing_left()
        self.assertEqual(self.snapshot(), before)

    def snapshot(self) -> dict[str, bytes]:
        root = self.nodes.folder / HOST
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def test_a_broker_that_never_started(self) -> None:
        self.stop(self.broker())
        self.assert_nothing_left()

    def test_a_broker_that_is_stopped_twice(self) -> None:
        node = self.broker()
        node.startService()
        self.stop(node)
        self.stop(node)
        self.assert_nothing_left()

    def test_a_part_that_fails_to_stop_keeps_nothing_else_from_stopping(self) -> None:
        node = self.broker()
        node.startService()
        stop = node.services.stop

        def stop_and_fail() -> None:
            stop()
            raise ZeroDivisionError

        self.patch(node.services, "stop", stop_and_fail)
        self.stop(node)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assert_nothing_left()

    def test_a_master_that_fails_to_stop_leaves_its_own_name_server_stopped(self) -> None:
        names = self.name_server()

        class Failing(Service):
            def stopService(self) -> None:
                raise ZeroDivisionError

        stack = stacked(names, Failing())
        stack.startService()
        self.stop(stack)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assert_nothing_left()

    def test_a_broker_that_can_not_be_built_claims_nothing(self) -> None:
        taken = self.network.host(HOST).listen(HA, Factory())
        self.assertRaises(SettingError, self.broker)
        self.assertEqual(self.network.claimed, set())
        self.successResultOf(taken.stopListening())

    def test_a_master_that_can_not_be_built_gives_its_own_name_servers_port_back(self) -> None:
        taken = self.network.host(HOST).listen(HA, Factory())
        config = self.nodes.config(HOST, bind_address=HOST)
        self.assertRaises(SettingError, build_master, config, self.parts(HOST))
        self.assertEqual(self.network.claimed, set())
        self.successResultOf(taken.stopListening())

    def name_server(self) -> Any:
        config = NamesrvConfig(kv_config_path=str(self.nodes.folder / "kv.json"), listen_port=9876)
        return build_name_server(config, self.parts(NAMES))

    def test_a_name_server_without_its_port(self) -> None:
        self.block(9876)
        names = self.name_server()
        self.assertRaises(CannotListenError, names.startService)
        self.stop(names)
        self.assert_nothing_left()

    def test_a_name_server_that_never_started(self) -> None:
        self.stop(self.name_server())
        self.assert_nothing_left()

    def test_a_name_server_that_ran(self) -> None:
        names = self.name_server()
        names.startService()
        self.stop(names)
        self.assert_nothing_left()
