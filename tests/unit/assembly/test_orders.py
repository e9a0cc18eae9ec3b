"""What an operator orders of a running broker: its configuration read again, and haste at the stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole
from hatwisted.wire.codes import RequestCode
from tests.support.memorynode import NAME_SERVER, MemoryNodes
from tests.unit.ha.rig import LogCatcher

MASTER = "10.0.0.1"


class OrderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.start_name_server()
        self.file = Path(self.mktemp()).absolute()
        self.file.write_text("# ours\nbrokerPermission=6\nfileReservedTime=72\n")
        self.parts = self.nodes.parts(MASTER)
        self.caught = LogCatcher(self)
        self.master = self.nodes.start(
            MASTER, self.parts, namesrv_addr=NAME_SERVER, broker_config_path=str(self.file),
            broker_role=BrokerRole.SYNC_MASTER,
        )  # fmt: skip

    def reread(self, **changes: Any) -> str:
        """The log's word about it."""
        before = self.master.parts.config.config
        self.parts.orders.reread(before, msgspec.structs.replace(before, **changes))
        return self.caught.texts("info")[-1]

    def test_what_can_take_effect_does_and_the_rest_is_named(self) -> None:
        self.file.write_text("# edited\nbrokerPermission=4\nfileReservedTime=12\nlistenPort=1\n")
        said = self.reread(broker_permission=4, file_reserved_time=12, listen_port=1)
        self.assertEqual(
            said,
            "configuration read again: in effect: brokerPermission, fileReservedTime; after a restart: listenPort",
        )
        line = self.caught.texts("info")[-2].removeprefix("audit config.reread ")
        self.assertEqual(
            json.loads(line),
            {
                "by": None,
                "from": "file",
                "before": {"brokerPermission": "6", "fileReservedTime": "72"},
                "after": {"brokerPermission": "4", "fileReservedTime": "12"},
                "waiting": ["listenPort"],
            },
        )
        config = self.master.parts.config.config
        self.assertEqual((config.broker_permission, config.file_reserved_time), (4, 12))
        self.assertEqual(config.listen_port, 10911)
        self.nodes.pass_time(1)
        self.assertEqual(self.file.read_text().splitlines()[0], "# edited", "it isn't written by a reading")

    def test_what_an_editor_wrote_outranks_an_earlier_request(self) -> None:
        code = RequestCode.UPDATE_BROKER_CONFIG
        self.assertEqual(self.nodes.ask(f"{MASTER}:10911", code, b"fileReservedTime=48").code, 0)
        self.assertIn("fileReservedTime=48", self.file.read_text())
        self.file.write_text("# edited\nfileReservedTime=12\n")
        self.reread(file_reserved_time=12)
        self.assertEqual(self.nodes.ask(f"{MASTER}:10911", code, b"deleteWhen=05").code, 0)
        self.assertEqual(self.file.read_text(), "# edited\nfileReservedTime=12\ndeleteWhen=05\n")

    def test_a_file_that_is_linked_to_stays_linked_to(self) -> None:
        """A folder of configurations is linked to by those who keep it under version control."""
        kept = self.file.with_name(f"{self.file.name}-kept")
        self.file.rename(kept)
        self.file.symlink_to(kept)
        answer = self.nodes.ask(f"{MASTER}:10911", RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=48")
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertTrue(self.file.is_symlink())
        self.assertIn("fileReservedTime=48", kept.read_text())

    def test_an_editor_takes_back_what_was_requested_since_the_last_reading(self) -> None:
        before, address = self.master.parts.config.config, f"{MASTER}:10911"
        for text in (b"fileReservedTime=48", b"deleteWhen=05"):
            self.assertEqual(self.nodes.ask(address, RequestCode.UPDATE_BROKER_CONFIG, text).code, 0)
        self.file.write_text(self.file.read_text().replace("fileReservedTime=48", "fileReservedTime=72"))
        self.parts.orders.reread(before, msgspec.structs.replace(before, delete_when="05"))
        said = self.caught.texts("info")[-1]
        self.assertEqual(said, "configuration read again: in effect: fileReservedTime")
        config = self.master.parts.config.config
        self.assertEqual((config.file_reserved_time, config.delete_when), (72, "05"))

    def test_nothing_changed(self) -> None:
        self.assertEqual(self.reread(), "configuration read again: nothing to take over")
        self.assertNotIn("audit", "".join(self.caught.texts("info")))

    def test_in_haste_no_slave_is_waited_for(self) -> None:
        for haste, seconds in ((False, 2.5), (True, 0.0)):
            with self.subTest(haste=haste):
                end = self.master.parts.store.log.max_offset
                slave = self.nodes.play_slave("10.0.0.5", f"{MASTER}:10912", end)
                slave.acks = False
                self.nodes.pass_time(0.5)
                self.nodes.send(f"{MASTER}:10911")
                begun = self.nodes.clock.seconds()
                stopping = self.master.stopService()
                if haste:
                    self.nodes.pass_time(0.1)
                    self.parts.orders.hasten()
                self.nodes.result(stopping)
                self.assertGreaterEqual(self.nodes.clock.seconds() - begun, seconds)
                if haste:
                    self.assertLess(self.nodes.clock.seconds() - begun, 2.5)
                else:
                    self.parts = self.nodes.parts(MASTER)
                    self.master = self.nodes.start(
                        MASTER, self.parts, namesrv_addr=NAME_SERVER, broker_role=BrokerRole.SYNC_MASTER
                    )
