"""The table of consumers' filters: which version counts, who is dead, RocketMQ's file."""

import json

from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.filter import consumerfilter as consumerfilters
from hatwisted.broker.filter.bloomfilter import bloom_positions
from hatwisted.broker.filter.consumerfilter import KEEP_DEAD, ConsumerFilterTable
from hatwisted.broker.filter.subscriptiondata import subscribe
from hatwisted.broker.filter.waitingexpressions import SLICE
from tests.support.golden import SQL92

FILTERS = SQL92 / "consumerFilter.json"
NOW = 1_795_245_600.0


class FilterCase(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.clock.advance(NOW)
        self.table = ConsumerFilterTable(self.clock)
        self.changes = 0
        self.table.changed = self.count

    def count(self):
        self.changes += 1

    def register(self, *wanted, group="g"):
        """wanted: (topic, expression, version) or with the expression's type."""
        self.table.register(
            group,
            [subscribe(topic, text, *(kind or ["SQL92"]), version) for topic, text, version, *kind in wanted],
        )
        self.table.go_on()

    def expression(self, topic="T", group="g"):
        known = self.table.find(topic, group)
        return known and (known.compiled.expression, known.version, known.dead)


class TestVersions(FilterCase):
    def test_newer_versions_replace_older_ones(self):
        self.register(("T", "a > 1", 5))
        self.assertEqual(self.expression(), ("a > 1", 5, False))
        self.register(("T", "a > 2", 4))
        self.register(("T", "a > 2", 5))
        self.assertEqual(self.expression(), ("a > 1", 5, False))
        self.register(("T", "a > 2", 6))
        self.assertEqual(self.expression(), ("a > 2", 6, False))
        self.register(("T", "a > 2", 7))
        self.assertEqual(self.expression(), ("a > 2", 7, False))

    def test_broken_successor_removes_its_forerunner(self):
        for broken in (("T", "a >", 6), ("T", "a > 1", 7, "FOO")):
            self.register(("T", "a > 1", 5))
            self.register(broken)
            self.assertIsNone(self.expression())

    def test_tags_are_no_filter(self):
        self.register(("T", "a > 1", 5, "TAG"), ("U", "x", 5, ""))
        self.assertIsNone(self.expression())
        self.assertEqual(self.changes, 0)

    def test_topics_no_longer_subscribed_die_and_revive(self):
        self.register(("T", "a > 1", 5), ("U", "b > 1", 5))
        self.register(("T", "a > 1", 5))
        self.assertEqual((self.expression()[2], self.expression("U")[2]), (False, True))
        self.register(("T", "a > 1", 5), ("U", "b > 1", 4))
        self.assertTrue(self.expression("U")[2])
        self.register(("T", "a > 1", 5), ("U", "b > 1", 5))
        self.assertFalse(self.expression("U")[2])

    def test_groups_are_kept_apart(self):
        self.register(("T", "a > 1", 5))
        self.register(("T", "a > 2", 5), group="h")
        self.table.unregister("g")
        self.assertEqual(self.expression(), ("a > 1", 5, True))
        self.assertEqual(self.expression(group="h"), ("a > 2", 5, False))
        self.table.unregister("unknown")

    def test_the_dead_are_forgotten_after_a_day(self):
        self.register(("T", "a > 1", 5))
        self.table.unregister("g")
        self.clock.advance(KEEP_DEAD / 1000 - 1)
        self.assertIn(b"a > 1", self.table.encode())
        self.clock.advance(1)
        self.assertEqual(self.table.encode(), b'{\n\t"filterDataByTopic":{}\n}')
        self.assertIsNone(self.expression())

    def test_all_expressions_together_are_limited(self):
        self.patch(consumerfilters, "MAX_TEXT", 32)  # each has five characters, and the names T0 and g
        self.register(*((f"T{number}", "a > 1", 1) for number in range(5)))
        self.assertEqual(self.expression("T3"), ("a > 1", 1, False))
        self.assertIsNone(self.expression("T4"))
        self.register(("T0", "a > 'x'", 2), ("T4", "a > 1", 1))
        self.assertEqual((self.expression("T0"), self.expression("T4")), (None, ("a > 1", 1, False)))
        self.register(("T" * 20, "a > 1", 1))
        self.assertIsNone(self.expression("T" * 20))


class TestDearExpressions(FilterCase):
    """One heartbeat may bring many; each takes longer than a turn."""

    def setUp(self):
        super().setUp()
        self.compiled = []
        real = consumerfilters.compile_filter

        def slow(kind, expression):
            self.compiled.append(expression)
            self.clock.rightNow += SLICE
            return real(kind, expression)

        self.patch(consumerfilters, "compile_filter", slow)

    def file(self):
        return json.loads(self.table.encode())["filterDataByTopic"]

    def test_each_has_a_turn_of_its_own(self):
        self.register(*((f"T{number}", f"a > {number}", 5) for number in range(4)))
        self.assertEqual((self.compiled, [*self.file()]), (["a > 0"], ["T0"]))
        seen = []
        for _ in range(4):
            seen.append(len(self.compiled))
            self.clock.advance(0.9 * SLICE)
            seen.append(len(self.compiled))
            self.clock.advance(0.2 * SLICE)
        self.assertEqual(seen, [1, 1, 2, 2, 3, 3, 4, 4], "others have as long between")
        self.assertEqual([*self.file()], ["T0", "T1", "T2", "T3"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.register(*((f"T{number}", f"a > {number}", 5) for number in range(4)))
        self.assertEqual(len(self.compiled), 4)

    def test_groups_of_one_heartbeat_share_its_turn(self):
        for number in range(3):
            self.table.register(f"g{number}", [subscribe("T", "a > 1", "SQL92", 5)])
        self.table.go_on()
        self.table.go_on()
        self.assertEqual(len(self.compiled), 1)

    def test_groups_take_turns(self):
        self.register(*((f"T{number}", f"a > {number}", 5) for number in range(9)))
        self.register(("T", "b > 1", 5), group="h")
        self.clock.pump([SLICE] * 2)
        self.assertLessEqual(self.compiled.index("b > 1"), 2)

    def test_a_pull_needs_not_wait(self):
        self.register(*((f"T{number}", f"a > {number}", 5) for number in range(4)))
        self.assertEqual(self.expression("T3"), ("a > 3", 5, False))
        self.assertEqual(self.compiled, ["a > 0", "a > 3"])

    def test_the_newest_of_those_that_wait_is_compiled(self):
        for version in (5, 7, 6):
            self.register(("T0", "a > 0", 5), ("T1", f"b > {version}", version))
        self.assertEqual(self.expression("T1"), ("b > 7", 7, False))
        self.assertEqual(self.compiled, ["a > 0", "b > 7"])

    def test_what_nobody_wants_any_more_is_not_compiled(self):
        self.register(*((f"T{number}", f"a > {number}", 5) for number in range(4)))
        self.register(("T0", "a > 0", 5), ("T2", "a > 2", 5))
        self.table.unregister("g")
        self.table.register("h", [subscribe("T", "b > 1", "SQL92", 5), subscribe("U", "b > 2", "SQL92", 5)])
        self.table.unregister("h")
        self.clock.pump([SLICE] * 5)
        self.assertEqual(self.compiled, ["a > 0"])
        self.assertEqual((self.expression("T0"), self.expression("T2")), (("a > 0", 5, True), None))

    def test_what_does_not_fit_is_not_compiled(self):
        self.patch(consumerfilters, "MAX_TEXT", 32)  # room for four
        for _ in range(2):
            self.register(*((f"T{number}", "a > 1", 1) for number in range(9)))
            self.clock.pump([SLICE] * 9)
            self.assertEqual(len(self.compiled), 4)
        self.assertIsNone(self.expression("T4"))

    def test_room_of_what_left_or_was_broken_is_free_again(self):
        self.patch(consumerfilters, "MAX_TEXT", 32)
        for version in range(1, 4):
            self.register(*((f"T{number}", "a >  ", version) for number in range(4)))
            self.register(*((f"U{number}", "a > 1", version) for number in range(4)))
            self.table.unregister("g")
        self.register(*((f"T{number}", "a > 1", 4) for number in range(3)))
        self.assertEqual(self.expression("T2"), ("a > 1", 4, False))

    def test_those_that_wait_count_for_a_pull_of_the_retry_topic(self):
        self.register(("T0", "a > 1", 5))
        effort = self.table.retry_test("g").effort
        self.register(("T0", "a > 1", 5), ("T1", "a > 1", 5), ("T2", "a > 1", 5))
        self.assertGreater(self.table.retry_test("g").effort, effort)

    def test_nothing_is_compiled_after_the_end(self):
        self.register(("T0", "a > 1", 5), ("T1", "a > 1", 5))
        self.table.stop()
        self.clock.pump([SLICE] * 5)
        self.assertEqual(len(self.compiled), 1)


class TestFile(FilterCase):
    def test_rocketmqs_file_is_written_back_as_it_was(self):
        golden = FILTERS.read_bytes()
        self.table.decode(golden.replace(b'"deadTime":0', b'"deadTime":1'))
        self.table.clean()
        self.assertEqual(self.table.encode(), golden.replace(b'"deadTime":0', b'"deadTime":1'))

    def test_whoever_was_alive_counts_as_just_gone(self):
        self.table.decode(FILTERS.read_bytes())
        known = self.table.find("T", "g")
        self.assertEqual(
            (known.compiled.expression, known.version), ("a > 5 AND b = 'it''s ä'", 1795222023480)
        )
        self.assertTrue(known.dead)
        self.assertEqual(known.died, int(NOW * 1000) - 30_000)
        self.assertEqual(self.table.find("T", "g2").died, 1795245511733)

    def test_expressions_that_no_longer_compile_are_left_out(self):
        self.table.decode(FILTERS.read_bytes().replace(b"c IN ('x')", b"c IN (x)"))
        self.assertIsNone(self.table.find("Topic-two", "other%group"))
        self.assertIsNotNone(self.table.find("T", "g"))

    def test_other_content_is_refused_and_changes_nothing(self):
        self.register(("T", "a > 1", 5))
        rows = json.loads(FILTERS.read_text())
        del rows["filterDataByTopic"]["T"]["groupFilterData"]["g2"]["expression"]
        for data in (b"[]", b"{}", b"nonsense", b'{"filterDataByTopic":{"T":5}}', json.dumps(rows).encode()):
            self.assertRaises(ValueError, self.table.decode, data)
        self.assertEqual(json.loads(self.table.encode())["filterDataByTopic"].keys(), {"T"})

    def test_bits_of_the_bloom_filter_are_rocketmqs(self):
        for text, bits in {
            "": [0, 0, 0],
            "a": [94, 99, 7],
            "g#T": [90, 68, 28],
            "consumer-group-name#a longer topic name 0123456789": [51, 9, 38],
            "ä中#😀": [65, 109, 102],
        }.items():
            self.assertEqual(bloom_positions(text), bits)


class RefusedTests(SynchronousTestCase):
    def test_so_many_that_were_logged_are_remembered(self):
        table = ConsumerFilterTable(Clock())
        self.patch(consumerfilters, "MAX_REFUSED", 3)
        with capturedLogs() as events:
            for _ in range(2):
                for topic in ("T", "U", "V"):
                    table.register("g", [subscribe(topic, "a >", "SQL92", 1)])
                    table.go_on()
        self.assertEqual(len([each for each in events if "log_format" in each]), 3, "each is told once")
        for number in range(100):
            table.register("g", [subscribe(f"T{number}", "a >", "SQL92", 1)])
            table.go_on()
        self.assertLessEqual(len(table._refused), 3)
