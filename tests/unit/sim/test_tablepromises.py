"""Which machines owe a change of a table that an operator was told of."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig, GroupTable
from hatwisted.broker.node.tablewatch import RETRY
from hatwisted.sim.group import Group
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simoperator import Operator
from hatwisted.sim.tablechanges import Key
from hatwisted.wire.registration import DataVersion

TOPIC = Key("topic", "T")
LONG = 20.0
"""Seconds until a slave has linked up, and has its master's tables."""


class GroupCase(SynchronousTestCase):
    """A name server, a master and its slave, linked."""

    def setUp(self) -> None:
        self.group = Group(draw_setup(2, ()))
        self.addCleanup(self.group.mute)
        self.operator = Operator(self.group, Promises())
        for name in ("names", "a", "b"):
            self.operator.start(name)
        self.wait(LONG)
        self.assertTrue(self.group.linked())

    def wait(self, seconds: float) -> None:
        self.group.clock.run_until(self.group.clock.seconds() + seconds)


class DeletionTests(GroupCase):
    """A topic that is deleted at once: the slave has it neither before nor afterwards."""

    def setUp(self) -> None:
        super().setUp()
        topics = self.group.machines["a"].service.parts.tables.topics
        topics.ensure(TOPIC.name, 4)
        topics.delete(TOPIC.name)
        self.operator.tables.changed(TOPIC, None, slaves=False)

    def owing(self) -> set[str]:
        self.operator.tables.look()
        return set(self.operator.tables.told[TOPIC].since)

    def test_a_slave_that_has_not_heard_of_the_topic_has_not_heard_of_its_end(self) -> None:
        self.assertEqual(self.owing(), {"a"})

    def test_one_with_the_master_s_table_has(self) -> None:
        self.wait(LONG)
        self.assertEqual(self.owing(), {"a", "b"})

    def test_a_link_that_was_lost_meanwhile_is_another_one(self) -> None:
        """Nobody was there to get what was changed in between."""
        before = self.group.common_link()
        self.assertIs(self.group.common_link(), before)
        before.abort()
        self.wait(LONG)
        self.assertIsNotNone(self.group.common_link())
        self.assertIsNot(self.group.common_link(), before)


class DoubtTests(GroupCase):
    """A master back without the only group that its slave has, and with another."""

    def setUp(self) -> None:
        super().setUp()
        master, slave = (self.group.machines[name].service.parts.tables.groups for name in ("a", "b"))
        here = GroupTable(subscription_group_table={"G": GroupConfig(group_name="G")})
        slave.replace(msgspec.structs.replace(here, data_version=DataVersion(counter=1, timestamp=1)))
        master.put(GroupConfig(group_name="H"))
        self.wait(LONG + RETRY / 2)
        self.operator.tables.look()
        self.assertNotIn("H", slave.table().subscription_group_table)
        master.put(GroupConfig(group_name="G"))

    def test_a_slave_that_has_doubted_has_time_to_ask_again(self) -> None:
        self.operator.tables.check_alike(lambda: self.wait(0.25))
        self.assertEqual(self.operator.violations, [])
