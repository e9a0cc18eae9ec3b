"""The text of tables: what fastjson's writer gives, whatever has changed since the last time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig, GroupTable, SubscriptionGroupTable
from hatwisted.broker.role import Role
from hatwisted.broker.tabletext import TableText
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable
from hatwisted.config.schema import BrokerRole
from hatwisted.wire import fastjson
from hatwisted.wire.registration import DataVersion, encode_body

NAMES = (
    "a",
    "b-1",
    "%RETRY%g",
    'quo"ted',
    "bäck\\slash",
    "\n\t",
    "",
    "subscriptionGroupTable",
    "{}",
    "x" * 200,
)


class TableTextTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.text = TableText("subscriptionGroupTable")

    def check(self, groups: dict[str, GroupConfig], forbidden: dict[str, object] | None = None) -> None:
        table = GroupTable(data_version=DataVersion(counter=7))
        if forbidden is not None:
            table.forbidden_table = forbidden
        found = self.text.text(table, groups)
        table.subscription_group_table = groups
        self.assertEqual(found, fastjson.dumps_pretty(table))

    def test_as_written_at_once_after_any_changes(self) -> None:
        dice = random.Random(12)
        groups: dict[str, GroupConfig] = {}
        self.check(groups)
        for _ in range(300):
            name = dice.choice(NAMES)
            if dice.random() < 0.3:
                groups.pop(name, None)
            else:
                config = GroupConfig(group_name=name, retry_max_times=dice.randrange(3))
                config = (
                    GroupConfig(group_name=name, attributes={"{}": name}) if dice.random() < 0.3 else config
                )
                groups[name] = config
            self.check(groups)
        groups.clear()
        self.check(groups)

    def test_beside_other_maps_that_look_like_it(self) -> None:
        groups = {"g": GroupConfig(group_name="g")}
        self.check(groups, {"subscriptionGroupTable": {}, "a": {"subscriptionGroupTable": {}}})
        self.check({}, {"subscriptionGroupTable": {"x": 1}})

    def test_what_has_not_changed_is_not_written_again(self) -> None:
        groups = {name: GroupConfig(group_name=name) for name in NAMES}
        self.check(groups)
        written: list[object] = []
        real = fastjson.dumps_pretty
        self.patch(fastjson, "dumps_pretty", lambda value: written.append(value) or real(value))
        groups["b-1"] = GroupConfig(group_name="b-1", retry_max_times=3)
        groups["a"] = GroupConfig(group_name="a")  # another object that says the same
        table = GroupTable()
        self.text.text(table, groups)
        self.assertEqual(written, [{"": {"b-1": groups["b-1"]}}, table])

    def test_topics(self) -> None:
        topics = TopicConfigTable(Clock(), FirstTopics(broker_name="b"))
        for number in range(20):
            topics.ensure(f"t{number}", 1 + number % 3)
            if number % 4 == 3:
                topics.delete(f"t{number - 2}")
            self.assertEqual(topics.encode(), fastjson.dumps_pretty(topics.table()))


class KeptBodyTests(SynchronousTestCase):
    def check_answers(
        self, table: TopicConfigTable | SubscriptionGroupTable, changes: Iterable[Callable[[], object]]
    ) -> None:
        """Its body is that of the table after each change, and made once."""
        for change in changes:
            change()
            body = table.encode_compact()
            self.assertEqual(body, encode_body(table.table()))
            self.assertIs(table.encode_compact(), body)

    def test_topics_are_answered_as_they_are(self) -> None:
        table = TopicConfigTable(Clock(), FirstTopics(broker_name="b"))
        other = TopicConfigTable(Clock(), FirstTopics(broker_name="other"))
        changes: list[Callable[[], object]] = [
            lambda: table.ensure("T", 4),
            lambda: table.set_ordered({"T": "b:4"}),
            table.touch,
            lambda: table.delete("T"),
            lambda: table.decode(other.encode()),
            lambda: table.replace(other.table()),
        ]
        self.check_answers(table, changes)

    def test_groups_are_answered_as_they_are(self) -> None:
        table, other = (SubscriptionGroupTable(Clock(), Role(BrokerRole.ASYNC_MASTER, 0)) for _ in range(2))
        other.put(GroupConfig(group_name="h"))
        changes: list[Callable[[], object]] = [
            lambda: table.find("g"),
            lambda: table.put(GroupConfig(group_name="g", retry_max_times=3)),
            lambda: table.delete("g"),
            lambda: table.decode(other.encode()),
            lambda: table.replace(other.table()),
        ]
        self.check_answers(table, changes)
