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


class CrashTests(SynchronousTestCase):
    def check(self, seeds: Sequence[int] = SEEDS, *, sync: bool = True, faults: bool = False) -> None:
        outcomes = crashfuzz.run(seeds, sync=sync, faults=faults)
        self.assertEqual(outcomes.violations, {})
        self.assertLess(outcomes.refused, outcomes.starts / 4)

    def test_B166_B168_with_sync_flush(self) -> None:
        self.check()

    def test_B166_B168_with_async_flush(self) -> None:
        self.check(sync=False)

    def test_B169_on_a_disk_that_fails(self) -> None:
        self.check((*FAILED_SYNCS, *range(times(3))), faults=True)
