"""What a pattern of stores at an object store stands for."""

from __future__ import annotations

from unittest import TestCase
from unittest.mock import Mock, patch

from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.spark.storelist import StoreList

STORELIST = "hatwisted.pipeline.spark.storelist"


class PatternTests(TestCase):
    def opened(self, pattern: str, path: str, found: list[str]) -> list[str]:
        """The folders of stores. path: the pattern as its file system calls it; found: by that one"""
        files = Mock(**{"glob.side_effect": {path: found}.__getitem__})
        files.unstrip_protocol.side_effect = "told://{}".format
        opened: list[str] = []

        def store(folder: str, broker: str | None) -> LogStore:
            opened.append(folder)
            return LogStore(folder, folder, [])

        with (
            patch(f"{STORELIST}.remote_filesystem", return_value=(files, path)),
            patch(f"{STORELIST}.LogStore.open", store),
        ):
            StoreList((pattern,)).stores()
        return opened

    def test_what_the_pattern_says_of_the_place_stays(self) -> None:
        """pyarrow's file systems know neither Azure's account nor Google's scheme by its name here."""
        for place in ("abfss://lake@ours.dfs.core.windows.net", "gs://lake", "s3a://lake"):
            for pattern in (f"{place}/stores/*", f"{place}/stores/*/"):
                found = self.opened(pattern, "lake/stores/*", ["lake/stores/b", "lake/stores/a"])
                self.assertEqual(found, [f"{place}/stores/a", f"{place}/stores/b"])
        self.assertEqual(self.opened("hdfs://names/a*", "/a*", ["/a1"]), ["hdfs://names/a1"])

    def test_a_pattern_of_places_is_the_file_system_s(self) -> None:
        self.assertEqual(self.opened("s3://la*/a", "la*/a", ["lake/a"]), ["told://lake/a"])
        self.assertEqual(self.opened("odd://x/A*", "a*", ["a1"]), ["told://a1"])
