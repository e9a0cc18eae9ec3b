"""Consumer groups made, changed and deleted: 200, 207."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from tests.unit.broker.rig import BrokerRig

UPDATE, ALL, DELETE = 200, 201, 207


class TestGroups(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    @inlineCallbacks
    def test_made_and_changed(self):
        config = {"groupName": "g", "retryMaxTimes": 3, "consumeEnable": False, "attributes": {}}
        before = self.rig.tables.groups.version.counter
        answer = yield self.rig.ask(UPDATE, json.dumps(config).encode())
        self.assertEqual((answer.code, answer.remark), (0, None))
        body = json.loads((yield self.rig.ask(ALL)).body)
        kept = body["subscriptionGroupTable"]["g"]
        self.assertEqual(
            (kept["retryMaxTimes"], kept["consumeEnable"], kept["retryQueueNums"]), (3, False, 1)
        )
        self.assertEqual(body["dataVersion"]["counter"], before + 1)

    @inlineCallbacks
    def test_bad_bodies(self):
        for body, word in (
            (b"", "body"),
            (b"[]", "GroupConfig"),
            (b"{}", "groupName"),
            (b'{"groupName":" "}', "groupName"),
            (b'{"groupName":"%s"}' % (b"x" * 256), "groupName"),
            (b'{"groupName":"g","retryMaxTimes":"many"}', "retryMaxTimes"),
            (b'{"groupName":"g","retryQueueNums":-1}', "retryQueueNums has the value -1"),
        ):
            answer = yield self.rig.ask(UPDATE, body)
            self.assertEqual(answer.code, 1)
            self.assertIn(word, answer.remark)
        self.assertNotIn("g", self.rig.tables.groups.table().subscription_group_table)

    @inlineCallbacks
    def test_deleted_with_its_progress_if_asked(self):
        offsets = self.rig.tables.offsets
        for fields, left in (({}, 5), ({"removeOffset": "true"}, None), ({"cleanOffset": "true"}, None)):
            yield self.rig.ask(UPDATE, b'{"groupName":"g"}')
            offsets.commit("g", "T", 0, 5)
            answer = yield self.rig.ask(DELETE, groupName="g", **fields)
            self.assertEqual((answer.code, answer.remark), (0, None))
            self.assertNotIn("g", self.rig.tables.groups.table().subscription_group_table)
            self.assertEqual(offsets.query("g", "T", 0), left)
        self.assertEqual((yield self.rig.ask(DELETE, groupName="unknown")).code, 0)
        self.assertEqual((yield self.rig.ask(DELETE)).code, 1)
