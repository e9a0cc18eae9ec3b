"""Memory that a slave frees and wants again isn't given back in between."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.heap import KEPT_FREE, keep_freed_memory

FAULTS = """
import resource, sys
from hatwisted.tap.heap import KEPT_FREE, keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    print(-1)
    sys.exit()
def turn():
    held = [b"x" * (1 << 20) for _ in range((KEPT_FREE >> 20) - 2)]
for _ in range(3):
    turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

GIVEN_BACK = """
import os
from hatwisted.tap.heap import KEPT_FREE, give_back_memory, keep_freed_memory
from testbed.processes import memory_of
if not keep_freed_memory():
    print(KEPT_FREE)
else:
    for _ in range(3):
        held = [b"x" * (1 << 20) for _ in range((KEPT_FREE >> 20) - 2)]
        del held
    before = memory_of(os.getpid())
    give_back_memory()
    print(before - memory_of(os.getpid()))
"""


class HeapTests(SynchronousTestCase):
    def faults(self, how: str) -> int:
        """Pages that the kernel cleared for a process that frees and wants the same memory twenty times."""
        told = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(told.stdout)

    def test_freed_memory_is_used_again(self) -> None:
        kept = self.faults("kept")
        if kept < 0:
            self.skipTest("this C library has no limits to set")
        self.assertLess(kept, KEPT_FREE // 4096)
        self.assertGreater(self.faults("not kept"), 10 * KEPT_FREE // 4096)

    def test_what_is_kept_is_given_back_when_asked(self) -> None:
        told = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, check=True)
        self.assertGreater(int(told.stdout), KEPT_FREE // 2)

    def test_it_says_whether_it_could(self) -> None:
        self.assertIsInstance(keep_freed_memory(), bool)
