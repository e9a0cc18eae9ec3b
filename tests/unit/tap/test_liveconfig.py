"""What a change of a running master's configuration does at once, and to its file."""

import os
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.broker.admin.brokerconfig import EFFECTIVE
from hatwisted.config.load import load_broker_config, with_path
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.loopback import HOST, broker_port, loopback, loopback_parts

FILE = """# ours
listenPort={port}
bindAddress=127.0.0.1
brokerIP1=127.0.0.1
storePathRootDir={root}
mappedFileSizeCommitLog=1048576
maxMessageSize=65536
maxHashSlotNum=100
maxIndexNum=1000
embeddedNamesrv=false
vipListenEnable=false
# keep this
deleteWhen=04
"""
CHANGES = {
    "brokerPermission": 4,
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "longPollingEnable": "false",
    "shortPollingTimeMills": 7,
    "slaveReadEnable": "true",
    "accessMessageInMemoryMaxRatio": 0,
    "deleteWhen": "05",
    "fileReservedTime": 5,
    "diskMaxUsedSpaceRatio": 50,
    "cleanFileForciblyEnable": "false",
}


class TestLiveConfig(TestCase):
    def setUp(self):
        folder = Path(self.mktemp()).absolute()
        os.makedirs(folder)
        self.path = folder / "broker.conf"
        self.path.write_text(FILE.format(port=broker_port(), root=folder / "store"))
        config = with_path(load_broker_config(str(self.path), host=HOST, environ={}), str(self.path)).config
        self.address = f"127.0.0.1:{config.listen_port}"
        self.node = build_broker(config, loopback_parts())
        self.node.startService()
        self.client = RemotingClient(loopback, reactor)
        self.addCleanup(self.client.close)

    def change(self, **settings):
        body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
        command = RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        return self.client.call(self.address, command, 30)

    @inlineCallbacks
    def test_every_effective_key_takes_effect_and_the_file_keeps_the_rest(self):
        self.assertEqual(CHANGES.keys(), EFFECTIVE)
        node = self.node
        try:
            self.assertEqual((yield self.change(**CHANGES)).code, 0)
            pull, retention = node.parts.pulls._options(), node.parts.store.retention._policy()
            self.assertEqual((pull.broker_permission, pull.slave_read_enable), (4, True))
            self.assertEqual((pull.long_polling_enable, pull.short_polling_time_mills), (False, 7))
            self.assertEqual(pull.slow_distance, 0)
            self.assertEqual((retention.delete_when, retention.reserved_hours), ("05", 5))
            self.assertEqual((retention.max_used, retention.clean_forcibly), (0.5, False))
            self.assertFalse(node.parts.tables.topics._auto_create())
            self.assertFalse(node.parts.tables.groups._auto_create())
        finally:
            yield node.stopService()
        lines = self.path.read_text().splitlines()
        self.assertEqual((lines[0], lines[11], lines[12]), ("# ours", "# keep this", "deleteWhen=05"))
        self.assertIn("fileReservedTime=5", lines)
        self.assertIn("deleteWhen=04\n", self.path.with_name("broker.conf.bak").read_text())
        load_broker_config(str(self.path), host=HOST, environ={})

    @inlineCallbacks
    def test_what_the_next_start_would_refuse_is_refused(self):
        try:
            answer = yield self.change(haHousekeepingInterval=10, fileReservedTime=5)
            self.assertEqual(answer.code, 1)
            self.assertIn("haHousekeepingInterval=10 would drop every idle link", answer.remark)
            self.assertEqual(self.node.parts.store.retention._policy().reserved_hours, 72)
        finally:
            yield self.node.stopService()
        self.assertNotIn("haHousekeepingInterval", self.path.read_text())
