"""What one commit of a landing is made of."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.jobs.land.logsplits import batches


def splits(*sizes: int) -> list[Split]:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [
        Split("store", "broker", "file", 0, 1 << 30, end - size, end, True)
        for size, end in zip(sizes, ends, strict=True)
    ]


class BatchesTests(SynchronousTestCase):
    def sizes(self, *sizes: int) -> list[list[int]]:
        """Of the splits of each batch, of 10 bytes at most."""
        given = splits(*sizes)
        found = list(batches(given, 10))
        self.assertEqual([split for batch in found for split in batch], given)
        return [[split.end - split.begin for split in batch] for batch in found]

    def test_none_has_more_bytes_than_is_said_unless_it_has_a_single_split(self) -> None:
        self.assertEqual(self.sizes(9, 9, 1, 1), [[9], [9, 1], [1]])
        self.assertEqual(self.sizes(4, 4, 2, 4), [[4, 4, 2], [4]])
        self.assertEqual(self.sizes(3, 12, 3), [[3], [12], [3]])
        self.assertEqual(self.sizes(), [])
