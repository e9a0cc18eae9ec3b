"""The budget of descriptors."""

from __future__ import annotations

import os

from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.linklimits import MAX_LINKS, MAX_UNREPORTED
from hatwisted.store.log.openfiles import OPEN_FILE_LIMIT
from hatwisted.store.queue.queuetable import OPEN_QUEUE_FILES
from hatwisted.tap import descriptors
from hatwisted.tap.descriptors import KEPT_FREE, NewcomerGuard, connections_within, room_for_connections


class BudgetTests(SynchronousTestCase):
    def test_connections_get_what_files_and_links_leave(self) -> None:
        others = OPEN_QUEUE_FILES + OPEN_FILE_LIMIT + MAX_UNREPORTED + MAX_LINKS + KEPT_FREE
        self.assertEqual(connections_within(655_350), 655_350 - others)
        for limit in (64, 300, 1024, 4096, 20_000):
            self.assertGreaterEqual(connections_within(limit), limit * 3 // 8, limit)

    def test_a_newcomer_is_sent_away_while_no_more_than_that_are_left(self) -> None:
        taken = [os.open(os.devnull, os.O_RDONLY)]
        self.addCleanup(lambda: [os.close(each) for each in taken])
        while taken[-1] < 4 * KEPT_FREE:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        lowest = taken.pop()
        os.close(lowest)
        for free, room in ((KEPT_FREE, False), (KEPT_FREE + 1, True)):
            self.patch(descriptors, "descriptor_limit", lambda free=free: lowest + free)
            self.assertEqual(room_for_connections(), room, free)
            served = NewcomerGuard(Factory.forProtocol(Protocol), Clock(), room_for_connections)
            self.assertEqual(served.buildProtocol(IPv4Address("TCP", "10.0.0.1", 1)) is not None, room)
