"""Consumer groups' settings."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer import subscriptiongroup
from hatwisted.broker.consumer.subscriptiongroup import (
    FIRST_GROUPS,
    MAX_GROUP_LENGTH,
    GroupConfig,
    GroupTable,
    SubscriptionGroupTable,
)
from hatwisted.broker.role import Role
from hatwisted.config.schema import BrokerRole
from hatwisted.wire.registration import DataVersion, decode_body
from tests.support.golden import GOLDEN


class TestGroups(SynchronousTestCase):
    def setUp(self):
        self.changes = []
        self.groups = self.table()

    def table(self, role=BrokerRole.ASYNC_MASTER, auto_create=True):
        groups = SubscriptionGroupTable(
            Clock(), Role(role, int(role is BrokerRole.SLAVE)), lambda: auto_create
        )
        groups.on_change(lambda: self.changes.append(groups.version.counter))
        return groups

    def test_captured_files_come_out_byte_for_byte(self):
        for role in ("master", "slave"):
            content = (GOLDEN / role / "config" / "subscriptionGroup.json").read_bytes()
            self.assertTrue(self.groups.replace(decode_body(content, GroupTable)) or role == "slave")
            self.assertEqual(self.groups.encode(), content)

    def test_every_broker_has_the_first_groups_with_the_captured_settings(self):
        captured = decode_body((GOLDEN / "master/config/subscriptionGroup.json").read_bytes(), GroupTable)
        table = captured.subscription_group_table
        self.assertEqual(set(table) - {"GoldenConsumer"}, set(FIRST_GROUPS))
        self.assertEqual({name: self.groups.find(name) for name in table}, table)

    def test_made_on_demand(self):
        self.assertEqual(self.groups.find("g"), GroupConfig(group_name="g"))
        self.groups.find("g")
        self.assertEqual(self.changes, [1])

    def test_not_made_when_forbidden_or_without_a_sensible_name(self):
        groups = self.table(auto_create=False)
        self.assertIsNone(groups.find("g"))
        self.assertIsNotNone(groups.find("CID_RMQ_SYS_TRANS"))
        self.assertIsNone(self.groups.find(""))
        self.assertIsNone(self.groups.find("g" * (MAX_GROUP_LENGTH + 1)))
        self.assertIsNotNone(self.groups.find("g" * MAX_GROUP_LENGTH))
        self.assertIsNone(self.groups.find("g\n\x1b[31m"))

    def test_a_group_under_anothers_name_is_refused(self):
        table = b'{"subscriptionGroupTable":{"g":{"groupName":"h"}}}'
        self.assertRaises(ValueError, self.groups.decode, table)

    def test_made_up_names_fill_no_table(self):
        self.patch(subscriptiongroup, "MAX_GROUPS", len(FIRST_GROUPS) + 2)
        self.assertEqual(
            [self.groups.find(name) is None for name in ("a", "b", "c", "a")], [False, False, True, False]
        )
        self.groups.put(GroupConfig(group_name="c"))
        self.assertIsNotNone(self.groups.find("c"))

    def test_slave_goes_by_the_defaults_without_keeping_them(self):
        groups = self.table(BrokerRole.SLAVE)
        self.assertEqual(groups.find("g"), GroupConfig(group_name="g"))
        self.assertEqual(self.changes, [])
        self.assertNotIn("g", groups.table().subscription_group_table)

    def test_B105_replaced_when_the_version_differs(self):
        theirs = GroupTable(
            data_version=DataVersion(counter=9), subscription_group_table={"g": GroupConfig(group_name="g")}
        )
        self.assertTrue(self.groups.replace(theirs))
        self.assertFalse(self.groups.replace(theirs))
        self.assertEqual(list(self.groups.table().subscription_group_table), ["g"])

    def test_loading_joins(self):
        self.groups.find("g")
        again = self.table()
        again.decode(self.groups.encode())
        self.assertEqual(again.encode(), self.groups.encode())
        self.assertRaises(ValueError, again.decode, b"[1]")
