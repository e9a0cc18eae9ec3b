"""What an address and the environment say of Azure's, Google's and Hadoop's stores, to pyarrow as to delta-rs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from unittest import TestCase, skipUnless
from unittest.mock import Mock, patch

from pyarrow.fs import AzureFileSystem, FileInfo, FileSelector, FileSystem, FileType

from hatwisted.pipeline.decode.azurefiles import azure_options
from hatwisted.pipeline.decode.googlefiles import GoogleFiles
from hatwisted.pipeline.decode.storebytes import (
    GOOGLE_SECONDS,
    arrow_filesystem,
    bucket_filesystem,
    hadoop_files,
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

    def test_folders_that_nobody_has_made_are_listed(self) -> None:
        """pyarrow lists the objects alone."""
        objects = {"lake/logs/a/commitlog/0": 3, "lake/logs/b": 5, "lake/logs/a/c": 1, "lake/other": 7}

        def info(asked: object) -> list[FileInfo]:
            assert isinstance(asked, FileSelector)
            below = [path for path in objects if path.startswith(f"{asked.base_dir}/")]
            direct = [path for path in below if "/" not in path[len(asked.base_dir) + 1 :]]
            return [
                FileInfo(path, FileType.File, size=objects[path])
                for path in (below if asked.recursive else direct)
            ]

        files = GoogleFiles(Mock(get_file_info=info))
        for folder in ("lake/logs", "lake/logs/"):
            found = {entry["name"]: (entry["type"], entry["size"]) for entry in files.ls(folder, detail=True)}
            self.assertEqual(found, {"lake/logs/a": ("directory", None), "lake/logs/b": ("file", 5)})
        self.assertEqual(files.ls("lake"), ["lake/logs", "lake/other"])

    def test_without_gcsfs_logs_are_read_so(self) -> None:
        with patch("fsspec.core.url_to_fs", side_effect=ImportError("no gcsfs")):
            files, path = remote_filesystem("gs://anonymous@lake/50%/b")
        self.assertEqual((type(files), path), (GoogleFiles, "lake/50%/b"))


class HadoopTests(TestCase):
    def setUp(self) -> None:
        for kept in (bucket_filesystem, hadoop_files):
            kept.cache_clear()
            self.addCleanup(kept.cache_clear)

    def test_a_machine_without_hdfs_native_is_told_to_install_it(self) -> None:
        """pyarrow's own error names a hundred places."""
        for library, path in product(("libjvm", "libhdfs"), ("hdfs://names:8020/lake", "viewfs://ours/lake")):
            error = OSError(f"Unable to load {library} dlopen(/usr/lib/jvm) failed: no such file " * 20)
            for reach in (arrow_filesystem, remote_filesystem):
                with (
                    without_native(),
                    patch("pyarrow.fs.FileSystem", **{"from_uri.side_effect": error}),
                    patch("fsspec.core.url_to_fs", side_effect=error),
                    self.assertRaises(PipelineError) as told,
                ):
                    reach(path)
                line = str(told.exception)
                self.assertTrue(
                    line.startswith(f"{path}: {path[: path.index(':')]}:// needs hdfs-native: pip"), line
                )
                self.assertLess(len(line), 250)
                self.assertIn(f"{library} isn't found: JAVA_HOME, HADOOP_HOME, and CLASSPATH", line)

    def test_other_errors_stay_what_they_are(self) -> None:
        with (
            without_native(),
            patch("pyarrow.fs.FileSystem", **{"from_uri.side_effect": OSError("no route to names")}),
            self.assertRaisesRegex(PipelineError, "^hdfs://names:8020/lake: no route to names$"),
        ):
            arrow_filesystem("hdfs://names:8020/lake")

    @skipUnless(find_spec("hdfs_native"), 'hdfs-native isn\'t installed: pip install "hatwisted[hdfs]"')
    def test_each_character_of_a_log_s_path_stands_for_itself(self) -> None:
        files, path = remote_filesystem("hdfs://names:8020/50%/a%41#b?c d")
        self.assertEqual((files.protocol, path), ("hdfs", "/50%/a%41#b?c d"))
        self.assertEqual(files.unstrip_protocol(path), "hdfs://names:8020/50%/a%41#b?c d")
        self.assertEqual(arrow_filesystem("hdfs://names:8020/a%20b")[1], "/a b")

    @skipUnless(find_spec("hdfs_native"), 'hdfs-native isn\'t installed: pip install "hatwisted[hdfs]"')
    def test_a_name_node_that_refuses_is_asked_for_less_than_a_minute(self) -> None:
        from hatwisted.pipeline.decode.hadoopfiles import ATTEMPTS

        with patch("hdfs_native.fsspec.Client") as client:
            remote_filesystem("hdfs://names:8020/lake")
        client.assert_called_once_with(
            "hdfs://names:8020", {"dfs.client.failover.max.attempts": str(ATTEMPTS)}
        )

    @skipUnless(find_spec("hdfs_native"), 'hdfs-native isn\'t installed: pip install "hatwisted[hdfs]"')
    def test_what_a_name_node_refuses_is_an_error_of_files(self) -> None:
        files, _ = remote_filesystem("hdfs://names:8020/")
        # As hdfs-native has it: a value of Rust's, printed.
        for refusal, told in (
            (
                r'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=x,'
                r' inode=\"/a\"\n\tat org.apache.hadoop.Server(Server.java:1)\n")',
                r"AccessControlException: Permission denied: user=x, inode=\"/a\"",
            ),
            ('RPCError("org.apache.hadoop.ipc.StandbyException", "standby")', "StandbyException: standby"),
            ("OperationFailed", "OperationFailed"),
        ):
            with (
                patch.object(files, "client", Mock(**{"get_file_info.side_effect": RuntimeError(refusal)})),
                self.assertRaises(OSError) as raised,
            ):
                files.isdir("/a")
            self.assertEqual(str(raised.exception), told)


@contextmanager
def without_native() -> Iterator[None]:
    """As if it weren't installed."""
    with patch.dict(sys.modules, {"hatwisted.pipeline.decode.hadoopfiles": None}):
        yield
