"""What the shell offers after TAB: names that fit, and nothing where the cluster has nothing to say."""

import logging

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import completion
from hatwisted.cli.cluster.clusterrun import Interrupt
from hatwisted.cli.cluster.completion import ANSWER_TIMEOUT, groups, topics
from hatwisted.cli.cluster.consume import consume
from hatwisted.cli.errors import CannotRun


class FakeCluster:
    """Whose brokers know these names."""

    def __init__(self, found):
        self.clock = Clock()
        self.topics = self.groups = lambda: found

    def admin(self):
        return self


class CompletionTests(SynchronousTestCase):
    def setUp(self):
        self.addCleanup(logging.disable, logging.NOTSET)
        self.asked = []
        self.ended = []

    def offered(self, offer, begun, found):
        def run(namesrv, work):
            self.asked.append(namesrv)
            cluster = FakeCluster(found)
            done = Deferred.fromCoroutine(work(cluster, Interrupt()))
            cluster.clock.advance(ANSWER_TIMEOUT)
            self.ended.append(done.called)
            return self.successResultOf(done)

        self.patch(completion, "run_reactor", run)
        context = consume.make_context("consume", ["T", "-n", "h:1"])
        return offer(context, consume.params[0], begun)

    def test_topics_that_begin_so(self):
        known = ["Orders", "Other", "Paid", "%RETRY%crew", "%DLQ%crew"]
        self.assertEqual(self.offered(topics, "O", succeed(known)), ["Orders", "Other"])
        self.assertEqual(self.offered(topics, "", succeed(known)), ["Orders", "Other", "Paid"])
        self.assertEqual(self.offered(topics, "%D", succeed(known)), ["%DLQ%crew"])
        self.assertEqual(self.asked, ["h:1"] * 3)

    def test_groups_that_begin_so(self):
        self.assertEqual(self.offered(groups, "cr", succeed(["crew", "others"])), ["crew"])

    def test_names_that_a_shell_would_take_for_more_than_one_arent_offered(self):
        self.assertEqual(self.offered(topics, "", succeed(["T", "T\nplain,U", "T\x9b2J", "T\u202e"])), ["T"])

    def test_who_doesnt_answer_in_time_has_nothing_to_offer(self):
        self.assertEqual(self.offered(topics, "", Deferred()), [])
        self.assertEqual(self.ended, [True], "nobody waits longer")

    def test_nor_has_who_fails(self):
        self.assertEqual(self.offered(groups, "", fail(CannotRun("nobody there"))), [])
