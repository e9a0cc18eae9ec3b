"""Lists of topics: made in steps, kept while nothing changes, answered one at a time."""

import json

from twisted.internet.defer import fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.namesrv import topiclists
from hatwisted.namesrv.topiclists import TopicLists
from hatwisted.namesrv.topicqueues import TopicQueues
from hatwisted.timing import steps
from hatwisted.timing.steps import MAX_OF_ONE, TooMuchWork
from hatwisted.wire.registration import QueueData


class ListCase(SynchronousTestCase):
    def setUp(self):
        self.patch(topiclists, "STEP", 2)
        self.patch(steps, "SLICE", 0.0)  # a step in each turn
        self.clock = Clock()
        self.queues = TopicQueues(self.clock)
        self.clusters = {"C": ["a"], "D": ["a", "b"]}
        self.lists = TopicLists(self.clock, self.queues, lambda cluster: self.clusters.get(cluster, ()))
        self.add("TUVWX")

    def add(self, topics, group="a", flags=0):
        for topic in topics:
            data = QueueData(
                broker_name=group, perm=6, read_queue_nums=1, write_queue_nums=1, topic_sys_flag=flags
            )
            self.queues.add(topic, data, "host")

    def names(self, made):
        """Of a list that is there."""
        return "".join(json.loads(self.successResultOf(made))["topicList"])

    def all_there(self, *lists):
        """Whether each is, from turn to turn of the loop, as somebody else sees it."""
        seen = []

        def look():
            seen.append([made.called for made in lists])
            if not all(seen[-1]):
                self.clock.callLater(0, look)

        look()
        self.clock.advance(0)
        return seen


class MadeTests(ListCase):
    def test_a_small_one_is_there_at_once(self):
        self.patch(topiclists, "STEP", 6)
        for made, names in (
            (self.lists.every("c"), "TUVWX"),
            (self.lists.of_cluster("c", "C"), "TUVWX"),
            (self.lists.of_cluster("c", "other"), ""),
            (self.lists.with_flags("c", 1), ""),
        ):
            self.assertEqual(self.names(made), names)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_others_have_their_turns_while_a_large_one_is_made(self):
        made = self.lists.every("c")
        self.assertEqual(self.all_there(made), [[False], [False], [True]])
        self.assertEqual(self.names(made), "TUVWX")

    def test_a_cluster_has_each_topic_once(self):
        self.add("XYZ", "b")
        made = self.lists.of_cluster("c", "D")
        self.clock.advance(0)
        self.assertEqual(self.names(made), "TUVWXYZ")

    def test_flags_are_those_of_the_first_group(self):
        self.add("AB", flags=3)
        self.add("CD", flags=2)
        self.add("ACT", "b", flags=1)
        lists = [self.lists.with_flags("c", has, lacks) for has, lacks in ((1, 0), (2, 0), (2, 1))]
        self.clock.advance(0)
        self.assertEqual([*map(self.names, lists)], ["AB", "ABCD", "CD"])

    def test_those_that_wait_are_answered_one_in_a_turn(self):
        asked = [self.lists.every(f"client {number}") for number in range(3)]
        seen = self.all_there(*asked)
        self.assertEqual([sum(each) for each in seen], [0, 0, 1, 2, 3])
        self.assertEqual({self.names(made) for made in asked}, {"TUVWX"})


class KeptTests(ListCase):
    def made(self, made):
        self.clock.advance(0)
        return self.successResultOf(made)

    def test_it_is_kept_until_the_topics_are_others(self):
        for change, names in (
            (lambda: self.add("Y"), "TUVWXY"),
            (lambda: self.queues.drop("T", "a"), "UVWXY"),
            (lambda: self.add("Y", "b"), "UVWXY"),
            (lambda: self.queues.leave("a"), "UVWXY"),
            (lambda: self.queues.sweep(), "Y"),
        ):
            before = self.made(self.lists.every("c"))
            self.assertIs(self.successResultOf(self.lists.every("c")), before)
            change()
            self.assertEqual("".join(json.loads(self.made(self.lists.every("c")))["topicList"]), names)

    def test_who_asks_after_a_change_sees_it(self):
        before = self.lists.every("c")
        self.add("Y")
        after = self.lists.every("c")
        self.clock.advance(0)
        self.assertEqual(self.names(after), "TUVWXY")
        self.assertIn(self.names(before), ("TUVWX", "TUVWXY"))

    def test_so_many_are_kept(self):
        self.patch(topiclists, "MAX_LISTS", 2)
        for cluster in ("C", "D", "other"):
            self.made(self.lists.of_cluster("c", cluster))
        self.assertEqual(len(self.lists._kept), 2)
        self.assertNoResult(self.lists.of_cluster("c", "C"))
        self.successResultOf(self.lists.of_cluster("c", "other"))

    def test_so_many_bytes_are_kept(self):
        self.patch(topiclists, "MAX_KEPT", 50)
        first, second = self.made(self.lists.every("c")), self.made(self.lists.of_cluster("c", "C"))
        self.assertGreater(len(first) + len(second), 50)
        self.assertEqual([*self.lists._kept], [("cluster", "C")])
        self.patch(topiclists, "MAX_KEPT", 10)
        self.made(self.lists.every("c"))
        self.assertEqual([*self.lists._kept], [])


class WaiterTests(ListCase):
    def test_a_connection_waits_for_so_many(self):
        asked = [self.lists.every("c") for _ in range(MAX_OF_ONE)]
        self.failureResultOf(self.lists.every("c"), TooMuchWork)
        other = self.lists.every("other")
        self.clock.advance(0)
        self.assertEqual({self.names(made) for made in (*asked, other)}, {"TUVWX"})
        self.assertEqual((self.lists._of, self.lists._waiting), ({}, {}))

    def test_who_has_gone_is_not_answered(self):
        gone, there = self.lists.every("gone"), self.lists.every("there")
        self.lists.forget("gone")
        self.lists.forget("gone")
        self.clock.advance(0)
        self.assertNoResult(gone)
        self.assertEqual(self.names(there), "TUVWX")
        self.assertEqual((self.lists._of, self.lists._waiting), ({}, {}))

    def test_when_too_much_is_under_way_those_that_wait_are_told(self):
        self.patch(topiclists.Steps, "run", lambda *_: fail(TooMuchWork("1024 in all")))
        self.failureResultOf(self.lists.every("c"), TooMuchWork)
        self.assertEqual((self.lists._of, self.lists._waiting), ({}, {}))
