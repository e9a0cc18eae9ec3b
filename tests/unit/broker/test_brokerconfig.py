"""The configuration at run time: 25, 26."""

import json
import re
from pathlib import Path

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.config.changing import EFFECTIVE, FIXED
from hatwisted.config.javaproperties import parse_properties
from hatwisted.config.schema import BrokerConfig
from tests.unit.broker.rig import BrokerRig

UPDATE, SHOW = 25, 26


class TestConfig(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    @inlineCallbacks
    def shown(self):
        answer = yield self.rig.ask(SHOW)
        lines = answer.body.decode().splitlines()
        return json.loads(answer.ext["version"]), dict(line.split("=", 1) for line in lines if line[0] != "#")

    @inlineCallbacks
    def test_shown_and_changed(self):
        version, before = yield self.shown()
        self.assertEqual((before["fileReservedTime"], before["brokerRole"]), ("72", "ASYNC_MASTER"))
        self.assertEqual(version["counter"], 0)
        told = []
        self.rig.config.on_change(told.append)
        answer = yield self.rig.ask(UPDATE, b"fileReservedTime=48\nflushDiskType=SYNC_FLUSH\n")
        self.assertEqual((answer.code, answer.remark), (0, None))
        version, after = yield self.shown()
        self.assertEqual((after["fileReservedTime"], after["flushDiskType"]), ("48", "SYNC_FLUSH"))
        self.assertEqual(version["counter"], 1)
        self.assertEqual([config.file_reserved_time for config in told], [48])

    @inlineCallbacks
    def test_refused_as_a_whole_naming_what_is_wrong(self):
        for line, words in (
            (b"fileReservedTime=soon", "fileReservedTime: can't be 'soon'; allowed: a whole number"),
            (b"fileReservedTme=48", "fileReservedTme isn't a key of a broker's configuration, did you mean "),
            (b"listenPort=1234", "listenPort can't be changed while the broker is running"),
            (b"brokerRole=SLAVE", "brokerRole can't be changed"),
            (b"storePathRootDir=/etc", "storePathRootDir can't be changed"),
            (b"brokerConfigPath=/etc/passwd", "brokerConfigPath can't be changed"),
            (b"dashboardAddress=0.0.0.0", "dashboardAddress can't be changed"),
            (b"dashboardPasswordFile=/etc/other", "dashboardPasswordFile can't be changed"),
            (b"dashboardTlsMode=disabled", "dashboardTlsMode can't be changed"),
            (b"metricsTlsMode=disabled", "metricsTlsMode can't be changed"),
            (b"metricsAddress=0.0.0.0", "metricsAddress can't be changed"),
            (b"deleteWhen=\\uXYZ1", "request:2"),
        ):
            answer = yield self.rig.ask(UPDATE, b"deleteWhen=05\n" + line)
            self.assertEqual(answer.code, 1)
            self.assertIn(words, answer.remark)
        self.assertEqual(self.rig.config.config.delete_when, "04")
        self.assertEqual((yield self.shown())[0]["counter"], 0)

    @inlineCallbacks
    def test_a_line_break_in_a_value_makes_no_further_key(self):
        folder = Path(self.mktemp())
        folder.mkdir()
        file = folder / "broker.conf"
        file.write_text("brokerName=broker-a\nbrokerRole=ASYNC_MASTER\n")
        rig = BrokerRig(self, broker_config_path=str(file))
        for line_break in (b"\\n", b"\\r", b"\\u000a", b"\\u000d\\u000a"):
            answer = yield rig.ask(UPDATE, b"msgTraceTopicName=x%bbrokerRole=SLAVE" % line_break)
            self.assertEqual(answer.code, 0)
            written = {entry.key: entry.value for entry in parse_properties(file.read_bytes(), str(file))}
            self.assertEqual(written["brokerRole"], "ASYNC_MASTER")
            self.assertRegex(written["msgTraceTopicName"], r"^x\s+brokerRole=SLAVE$")
            shown = (yield rig.ask(SHOW)).body
            self.assertEqual(len(re.findall(rb"[\r\n]brokerRole=", shown)), 1)
            answer = yield rig.ask(UPDATE, b"messageDelayLevel=1s%bbrokerRole=SLAVE" % line_break)
            self.assertEqual(answer.code, 1)

    @inlineCallbacks
    def test_what_has_no_effect_here_is_taken_as_rocketmq_takes_it(self):
        for body in (b"", b"sendMessageThreadPoolNums=4\n"):
            self.assertEqual((yield self.rig.ask(UPDATE, body)).code, 0)

    def test_keys_are_keys(self):
        known = set(json.loads(json.dumps(list(BrokerConfig.__struct_encode_fields__))))
        self.assertLessEqual(FIXED | EFFECTIVE, known)
