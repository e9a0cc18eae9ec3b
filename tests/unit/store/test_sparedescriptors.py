"""Descriptors in reserve: folders are opened though all others are taken, so many at a time and no more."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.sparedescriptors import SPARE_DESCRIPTORS, SpareDescriptors


class SpareDescriptorsTests(SynchronousTestCase):
    def test_as_many_folders_as_are_held_can_be_opened_when_all_are_taken(self) -> None:
        spares = SpareDescriptors()
        spares.hold()
        spares.hold()
        with ExitStack() as stack:
            stack.callback(lambda: [os.close(each) for each in spares._spares])
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            lowest = os.open(os.devnull, os.O_RDONLY)
            os.close(lowest)
            # Numbers below it are taken, and none above it is given out.
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            folders = [stack.enter_context(spares.folder(".")) for _ in range(SPARE_DESCRIPTORS)]
            self.assertEqual(len(set(folders)), SPARE_DESCRIPTORS)
            with self.assertRaises(OSError):
                stack.enter_context(spares.folder("."))
