"""Lives of a store on a disk that loses power: no promise is broken, and few starts are refused.

`python -m tests.support.crashfuzz` runs any number of seeds.
"""

from twisted.trial.unittest import SynchronousTestCase

from tests.support import crashfuzz
from tests.support.soak import times

SEEDS = range(times(4))


class CrashTests(SynchronousTestCase):
    def check(self, sync: bool) -> None:
        outcomes = crashfuzz.run(SEEDS, sync=sync)
        self.assertEqual(outcomes.violations, {})
        self.assertLess(outcomes.refused, outcomes.starts / 4)

    def test_B166_B168_with_sync_flush(self) -> None:
        self.check(sync=True)

    def test_B166_B168_with_async_flush(self) -> None:
        self.check(sync=False)
