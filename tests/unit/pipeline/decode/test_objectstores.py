"""What an address and the environment say of Azure's and Google's stores, to pyarrow as to delta-rs."""

from __future__ import annotations

import os
from itertools import product
from unittest import TestCase
from unittest.mock import patch

from pyarrow.fs import AzureFileSystem, FileSystem

from hatwisted.pipeline.decode.azurefiles import azure_options
from hatwisted.pipeline.decode.storebytes import (
    GOOGLE_SECONDS,
    arrow_filesystem,
    bucket_filesystem,
    remote_filesystem,
)
from hatwisted.pipeline.errors import PipelineError

KEY = "c29tZWJvZHkncyBrZXk="
ENVIRONMENT = {"AZURE_STORAGE_ACCOUNT_NAME": "ours", "AZURE_STORAGE_ACCOUNT_KEY": KEY}


class AzureTests(TestCase):
    def test_the_account_is_of_the_address_or_else_of_the_environment(self) -> None:
        mine = {"account_name": "ours", "account_key": KEY}
        self.assertEqual(azure_options("abfs://lake/a/b", ENVIRONMENT), (mine, "lake/a/b"))
        self.assertEqual(azure_options("abfss://lake", ENVIRONMENT), (mine, "lake"))
        options, path = azure_options("abfss://lake@theirs.dfs.core.windows.net/a", ENVIRONMENT)
        self.assertEqual((options["account_name"], path), ("theirs", "lake/a"))

    def test_a_token_counts_where_there_is_no_key(self) -> None:
        for token in ("sv=2024&sig=x", "?sv=2024&sig=x"):
            found, _ = azure_options("abfs://lake@ours/a", {"AZURE_STORAGE_SAS_TOKEN": token})
            self.assertEqual(found, {"account_name": "ours", "sas_token": "?sv=2024&sig=x"})
        found, _ = azure_options("abfs://lake/a", ENVIRONMENT | {"AZURE_STORAGE_SAS_TOKEN": "sv=2024"})
        self.assertNotIn("sas_token", found)

    def test_without_either_it_is_azure_s_own_chain(self) -> None:
        self.assertEqual(azure_options("abfs://lake@ours/a", {})[0], {"account_name": "ours"})

    def test_another_place_than_azure_s_own(self) -> None:
        endpoint = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/ours"}
        found, _ = azure_options("abfs://lake/a", ENVIRONMENT | endpoint)
        for kind in ("blob", "dfs"):
            self.assertEqual(found[f"{kind}_storage_authority"], "127.0.0.1:10000")
            self.assertEqual(found[f"{kind}_storage_scheme"], "http")

    def test_no_account_is_told_in_a_line(self) -> None:
        with self.assertRaisesRegex(
            PipelineError, r"abfs://lake/a: of which account\? Set AZURE_STORAGE_ACCOUNT_NAME"
        ):
            azure_options("abfs://lake/a", {})

    def test_pyarrow_takes_them(self) -> None:
        bucket_filesystem.cache_clear()
        self.addCleanup(bucket_filesystem.cache_clear)
        with patch.dict(os.environ, ENVIRONMENT):
            files, path = arrow_filesystem("abfs://lake/a")
        self.assertIsInstance(files, AzureFileSystem)
        self.assertEqual(path, "lake/a")


class GoogleTests(TestCase):
    def test_who_has_no_credentials_needs_not_wait_for_long(self) -> None:
        files, path = arrow_filesystem("gs://anonymous@lake/a/b")
        self.assertEqual(path, "lake/a/b")
        patient, _ = FileSystem.from_uri("gs://anonymous@lake/a/b")
        self.assertNotEqual(files, patient)
        self.assertEqual(
            files, FileSystem.from_uri(f"gs://anonymous@lake/a/b?retry_limit_seconds={GOOGLE_SECONDS}")[0]
        )


class HadoopTests(TestCase):
    def test_a_machine_without_hadoop_s_client_is_told_what_to_set(self) -> None:
        """pyarrow's own error names a hundred places."""
        bucket_filesystem.cache_clear()
        self.addCleanup(bucket_filesystem.cache_clear)
        for library, path in product(("libjvm", "libhdfs"), ("hdfs://names:8020/lake", "viewfs://ours/lake")):
            error = OSError(f"Unable to load {library} dlopen(/usr/lib/jvm) failed: no such file " * 20)
            for reach in (arrow_filesystem, remote_filesystem):
                with (
                    patch("pyarrow.fs.FileSystem", **{"from_uri.side_effect": error}),
                    patch("fsspec.core.url_to_fs", side_effect=error),
                    self.assertRaises(PipelineError) as told,
                ):
                    reach(path)
                line = str(told.exception)
                self.assertTrue(line.startswith(f"{path}: {library} isn't found"), line)
                self.assertLess(len(line), 250)
                self.assertIn("set JAVA_HOME, HADOOP_HOME, and CLASSPATH", line)

    def test_other_errors_stay_what_they_are(self) -> None:
        bucket_filesystem.cache_clear()
        self.addCleanup(bucket_filesystem.cache_clear)
        with (
            patch("pyarrow.fs.FileSystem", **{"from_uri.side_effect": OSError("no route to names")}),
            self.assertRaisesRegex(PipelineError, "^hdfs://names:8020/lake: no route to names$"),
        ):
            arrow_filesystem("hdfs://names:8020/lake")
