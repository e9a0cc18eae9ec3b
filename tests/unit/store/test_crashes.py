"""Lives of a store on a disk that loses power: no promise is broken, and few starts are refused.

`python -m tests.support.crashfuzz` runs any number of seeds.
"""

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from tests.support import crashfuzz
from tests.support.soak import times

SEEDS = range(times(4))
FAILED_SYNCS = (68, 74, 77)
"""In these, a sync of the log fails long before a power failure."""

LOST_LIVES = (18, 25, 76)
"""In these, a power failure takes what a deleted queue says, or what the one that was made again does."""


class CrashTests(SynchronousTestCase):
    def check(self, seeds: Sequence[int] = SEEDS, **how: bool) -> None:
        outcomes = crashfuzz.run(seeds, **how)
        self.assertEqual(outcomes.violations, {})
        self.assertEqual(outcomes.rebuilt, 0)
        self.assertLess(outcomes.refused, outcomes.starts / 4)

    def test_B166_B168_with_sync_flush(self) -> None:
        self.check()

    def test_B166_B168_with_async_flush(self) -> None:
        self.check(sync=False)

    def test_B169_on_a_disk_that_fails(self) -> None:
        self.check((*FAILED_SYNCS, *range(times(3))), faults=True)

    def test_B95_topics_are_deleted_and_made_again(self) -> None:
        self.check((*LOST_LIVES, *range(times(2))), sync=False, deletes=True)
