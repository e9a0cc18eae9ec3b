"""The topic table: files, first start, auto-creation, the slave's copy."""

from twisted.internet.task import Clock
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.requests import Refusal
from hatwisted.broker.topic import topicconfig
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable, name_problem
from hatwisted.wire.registration import DataVersion, TopicConfig, TopicTable, decode_body, encode_body
from tests.support.golden import GOLDEN

NOW = 1795221233.673


class TopicCase(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.clock.advance(NOW)
        self.changes = []
        self.topics = self.table()

    def table(self, **first):
        topics = TopicConfigTable(self.clock, FirstTopics(broker_name="broker-a", **first))
        topics.on_change(lambda: self.changes.append(topics.version.counter))
        return topics

    def send(self, topic, default="TBW102", queues=4, sys_flag=0):
        """The queues, permission and flag that a send finds, or the refusal's code."""
        found = self.topics.for_send(topic, default, queues, sys_flag)
        if isinstance(found, Refusal):
            return found.code
        self.assertEqual(found, self.topics.get(topic))
        self.assertEqual(found.read_queue_nums, found.write_queue_nums)
        return found.write_queue_nums, found.perm, found.topic_sys_flag


class TestLines(TopicCase):
    def lines(self):
        found = []
        observer = found.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(lambda: globalLogPublisher.removeObserver(observer))
        return lambda: [
            formatEvent(event) for event in found if "topic {topic}" in (event["log_format"] or "")
        ]

    def test_topics_made_by_the_thousand_get_some_lines_which_say_how_many_have_none(self):
        lines = self.lines()
        for number in range(1000):
            self.send(f"T{number}")
        told = len(lines())
        self.assertIn(told, range(topicconfig.MADE_LINES, 2 * topicconfig.MADE_LINES))
        self.assertEqual(lines()[0], "topic T0 created: 4 queues to read, 4 to write, perm 6")
        self.clock.advance(1)
        self.send("Last")
        self.assertTrue(lines()[-1].endswith(f"perm 6 ({1000 - told} more like it were not logged)"))

    def test_an_operators_changes_have_a_line_each(self):
        lines = self.lines()
        for number in range(100):
            self.topics.put(TopicConfig(topic_name=f"T{number}"))
        self.topics.put(TopicConfig(topic_name="T0"))
        self.assertEqual(len(lines()), 101)
        self.assertTrue(lines()[-1].startswith("topic T0 changed: "))


class TestLimit(TopicCase):
    def test_made_up_names_fill_no_table(self):
        self.patch(topicconfig, "MAX_TOPICS", len(self.topics.table().topic_config_table) + 1)
        self.assertEqual([self.send(name) for name in ("A", "B", "A")], [(4, 6, 0), 17, (4, 6, 0)])
        self.assertEqual(self.topics.ensure("%RETRY%g", 1).write_queue_nums, 1)
        self.assertIn("already", self.topics.for_send("B", "TBW102", 4).remark)


class TestFiles(TopicCase):
    def test_topics_json_of_master_and_slave_come_out_byte_for_byte(self):
        for role in ("master", "slave"):
            content = (GOLDEN / role / "config" / "topics.json").read_bytes()
            topics = self.table()
            topics.decode(content)
            table = decode_body(content, TopicTable)
            self.assertEqual(topics.version, table.data_version)
            # Those of the first start come first here, RocketMQ's order is its hash table's.
            topics.replace(
                TopicTable(data_version=DataVersion(), topic_config_table=table.topic_config_table)
            )
            topics.version = table.data_version
            self.assertEqual(topics.encode(), content)

    def test_loaded_topics_win_over_those_of_the_first_start(self):
        self.topics.put(TopicConfig(topic_name="TBW102", write_queue_nums=3, read_queue_nums=3, perm=6))
        saved = self.topics.encode()
        again = self.table()
        again.decode(saved)
        self.assertEqual(again.get("TBW102").write_queue_nums, 3)
        self.assertEqual(again.version, self.topics.version)
        self.assertEqual(again.encode(), saved)

    def test_unreadable_file_is_refused_and_changes_nothing(self):
        before = self.topics.encode()
        for broken in (b"", b"{", b"[]", b'{"topicConfigTable":{"T":{"perm":"x"}}}'):
            self.assertRaises(ValueError, self.topics.decode, broken)
        self.assertEqual(self.topics.encode(), before)


class TestFirstStart(TopicCase):
    def test_topics_of_the_captured_brokers(self):
        """Everything the captured slave has, except what was made by its master's clients."""
        captured = decode_body((GOLDEN / "slave/config/topics.json").read_bytes(), TopicTable)
        made = {"TopicA", "TopicB", "TopicDelay", "TopicTx", "%RETRY%GoldenConsumer"}
        wanted = {name: topic for name, topic in captured.topic_config_table.items() if name not in made}
        self.assertEqual(self.topics.table().topic_config_table, wanted)

    def test_switches(self):
        names = self.table(auto_create_topic_enable=False, trace_topic_enable=True).names()
        self.assertNotIn("TBW102", names)
        self.assertIn("RMQ_SYS_TRACE_TOPIC", names)
        closed = self.table(cluster_topic_enable=False, broker_topic_enable=False)
        self.assertEqual([closed.get(name).perm for name in ("DefaultCluster", "broker-a")], [1, 1])

    def test_system_topics(self):
        for name in ("TBW102", "broker-a", "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_wheel_timer"):
            self.assertTrue(self.topics.is_system(name), name)
        self.assertFalse(self.topics.is_system("T"))


class TestSending(TopicCase):
    def test_unknown_topic_is_made_from_TBW102_with_the_fewer_queues(self):
        self.assertEqual(self.send("T", queues=4), (4, 6, 0))
        self.assertEqual(self.send("U", queues=16, sys_flag=1), (8, 6, 1))
        self.assertEqual(self.send("V", queues=-1), (1, 6, 0))
        self.assertEqual(self.changes, [1, 2, 3])

    def test_known_topic_is_left_alone(self):
        self.send("T", queues=4)
        self.assertEqual(self.send("T", queues=2, sys_flag=3), (4, 6, 0))
        self.assertEqual(self.changes, [1])

    def test_parent_has_to_exist_and_to_let_inherit(self):
        self.assertEqual(self.send("T", default="nobody"), 17)
        self.assertEqual(self.send("T", default="BenchmarkTest"), 17)
        self.assertEqual(self.send("T", default="DefaultCluster", queues=99), (16, 6, 0))
        self.assertEqual(self.changes, [1])

    def test_no_auto_creation_even_if_the_file_still_has_TBW102(self):
        saved = self.topics.encode()
        self.topics = self.table(auto_create_topic_enable=False)
        self.topics.decode(saved)
        self.assertEqual(self.send("T"), 17)

    def test_retry_topics_need_no_parent(self):
        self.assertEqual(self.send("%RETRY%g", default="nobody"), (1, 6, 0))

    def test_system_topics_are_refused(self):
        for name in (
            "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "SELF_TEST_TOPIC",
            "OFFSET_MOVED_EVENT",
        ):
            self.assertEqual(self.send(name), 16, name)

    def test_read_only_topic_is_refused(self):
        self.topics.put(TopicConfig(topic_name="T", perm=4))
        self.assertEqual(self.send("T"), 16)

    def test_bad_names_are_refused_with_the_reason(self):
        for name in (
            "",
            " ",
            "a b",
            "t\u00f6pic",
            "a/b",
            "x" * 128,
            "T\n",
            "../../etc/x",
            "..",
            "a\0b",
            "a\nb",
        ):
            self.assertEqual(self.send(name), 1, name)
        self.assertIsNone(name_problem("x" * 127))
        self.assertIn("illegal characters", name_problem("a/b"))
        self.assertEqual(self.changes, [])


class TestVersion(TopicCase):
    def test_each_change_counts_and_is_dated(self):
        self.clock.advance(1)
        self.topics.put(TopicConfig(topic_name="T"))
        self.assertEqual(self.topics.version, DataVersion(counter=1, timestamp=1795221234673))
        self.topics.delete("T")
        self.topics.delete("T")
        self.assertEqual(self.topics.version.counter, 2)

    def test_ordered_topics_are_set_and_unset(self):
        self.topics.put(TopicConfig(topic_name="T"))
        self.topics.put(TopicConfig(topic_name="U"))
        self.topics.set_ordered({"T": "broker-a:4", "elsewhere": "x"})
        self.assertEqual([self.topics.get(name).order for name in "TU"], [True, False])
        self.topics.set_ordered({"T": "broker-a:4"})
        self.assertEqual(self.topics.version.counter, 3)
        self.topics.set_ordered({})
        self.assertFalse(self.topics.get("T").order)

    def test_the_same_answer_again_orders_what_has_changed_since(self):
        ordered = {"T": "broker-a:4"}
        changes = (
            lambda: self.send("T"),
            lambda: self.topics.put(TopicConfig(topic_name="T")),
            lambda: self.topics.put(TopicConfig(topic_name="U", order=True)),
            lambda: (self.topics.delete("T"), self.send("T")),
            lambda: self.topics.replace(self.table().table()) and self.send("T"),
            lambda: self.topics.decode(encode_body(TopicTable(topic_config_table={"T": unordered}))),
        )
        unordered = TopicConfig(topic_name="T")
        for change in changes:
            change()
            self.topics.set_ordered(dict(ordered))
            counter = self.topics.version.counter
            self.topics.set_ordered(dict(ordered))
            self.assertEqual(self.topics.version.counter, counter)
            found = [name for name in self.topics.names() if self.topics.get(name).order]
            self.assertEqual(found, ["T"])

    def test_B101_slave_takes_over_the_masters_table_deletions_included(self):
        self.topics.put(TopicConfig(topic_name="Mine"))
        copied = {"T": TopicConfig(topic_name="T")}
        theirs = TopicTable(data_version=DataVersion(counter=7, timestamp=1), topic_config_table=copied)
        self.assertTrue(self.topics.replace(theirs))
        self.assertEqual((self.topics.names(), self.topics.version.counter), (["T"], 7))
        self.assertFalse(self.topics.replace(theirs))
        self.assertEqual(self.changes, [1, 7])

    def test_broker_permission_goes_into_what_is_registered(self):
        perms = {topic.perm for topic in self.topics.table(4).topic_config_table.values()}
        self.assertEqual(perms, {4})
        self.assertEqual(self.topics.get("TBW102").perm, 7)
