"""Commits: forward always, back only from who can mean it."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer import offsetcommit
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.heartbeat import parse_heartbeat
from hatwisted.broker.consumer.offsetcommit import RESET_GRACE, OffsetCommits

QUEUE = ("g", "T", 0)


class Connection:
    """As much of a client's connection as the rule looks at."""

    def __init__(self, peer):
        self.peer = peer


class TestProgress(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.offsets = ConsumerOffsetTable(self.clock)
        self.clients = ClientTable(self.clock, lambda group, members: None)
        self.end = 1000
        self.progress = OffsetCommits(self.clock, self.offsets, self.clients, lambda topic, queue: self.end)
        self.one, self.two, self.tool = (Connection(name) for name in ("one", "two", "tool"))
        for member in (self.one, self.two):
            beat = {"clientID": member.peer, "consumerDataSet": [{"groupName": "g"}]}
            self.clients.heartbeat(member, parse_heartbeat(beat), "JAVA", 407)

    def commit(self, connection, offset):
        """The offset kept after a commit."""
        self.progress.commit(connection, *QUEUE, offset)
        return self.offsets.query(*QUEUE)

    def test_B162_late_commit_of_the_queue_s_last_holder_changes_nothing(self):
        self.commit(self.one, 100)
        self.assertEqual(self.commit(self.two, 150), 150)
        self.assertEqual(self.commit(self.one, 110), 150)
        self.assertEqual(self.commit(self.one, 160), 160)

    def test_holder_may_seek_back(self):
        self.commit(self.one, 100)
        self.assertEqual(self.commit(self.one, 40), 40)

    def test_who_asks_for_the_offset_holds_the_queue(self):
        self.commit(self.one, 100)
        self.progress.asked(self.two, *QUEUE)
        self.assertEqual(self.commit(self.two, 40), 40)
        self.assertEqual(self.commit(self.one, 30), 40)

    def test_repeated_commit_of_the_last_holder_says_nothing(self):
        self.commit(self.one, 100)
        self.progress.asked(self.two, *QUEUE)
        self.commit(self.one, 100)
        self.assertEqual(self.commit(self.one, 90), 100)
        self.assertEqual(self.commit(self.two, 40), 40)

    def test_tools_may_go_back(self):
        self.commit(self.one, 100)
        self.assertEqual(self.commit(self.tool, 5), 5)
        self.progress.asked(self.tool, *QUEUE)
        self.assertEqual(self.commit(self.one, 4), 4)

    def test_after_a_reset_every_member_may_go_back_for_a_minute(self):
        self.commit(self.one, 100)
        self.progress.reset("g", "T", [0])
        self.assertEqual(self.commit(self.two, 5), 5)
        self.commit(self.two, 90)
        self.clock.advance(RESET_GRACE)
        self.assertEqual(self.commit(self.one, 6), 6)
        self.commit(self.two, 90)
        self.clock.advance(0.001)
        self.assertEqual(self.commit(self.one, 6), 90)

    def test_of_many_resets_so_many_are_remembered_until_their_minute_is_over(self):
        self.patch(offsetcommit, "MAX_RESETS", 2)
        self.commit(self.one, 100)
        self.progress.reset("h", "T", [0, 1])
        self.progress.reset("g", "T", [0])
        self.assertEqual(self.commit(self.two, 5), 100)
        self.clock.advance(RESET_GRACE + 1)
        self.progress.reset("g", "T", [0])
        self.assertEqual(self.commit(self.two, 5), 5)

    def test_progress_beyond_the_queue_s_end_is_corrected_by_anyone(self):
        self.commit(self.one, 100)
        self.end = 60
        self.assertEqual(self.commit(self.two, 60), 60)

    def test_closed_connection_holds_nothing(self):
        self.commit(self.one, 100)
        self.progress.closed(self.one)
        self.progress.closed(self.two)
        self.assertEqual(self.commit(self.one, 50), 100)
        self.assertEqual((self.progress._holders, self.progress._held), ({}, {}))

    def test_what_doesnt_change_is_not_written_again(self):
        changes = []
        self.offsets.on_change(lambda: changes.append(1))
        self.commit(self.one, 100)
        self.commit(self.one, 100)
        self.assertEqual(len(changes), 1)
