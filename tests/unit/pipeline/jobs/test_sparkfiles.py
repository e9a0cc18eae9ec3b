"""What a session without a store's file system is told."""

from __future__ import annotations

from unittest import TestCase, skipUnless

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.jobs.union.sparkfiles import naming_table

try:
    from pyspark.errors import PySparkException
except ImportError:
    PySparkException = None


@skipUnless(PySparkException, 'Spark isn\'t installed: pip install "hatwisted[pipeline]"')
class MissingPackageTests(TestCase):
    def test_the_package_is_the_one_whose_class_hadoop_names(self) -> None:
        """Google's own gcs-connector has another, which Hadoop from 3.5 on must be told of; that's said, too."""
        error = PySparkException(
            "ClassNotFoundException: Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
        )
        wanted = (
            r"give it org\.apache\.hadoop:hadoop-gcp of its Hadoop's version \(spark\.jars\.packages\),"
            r" set spark\.hadoop\.fs\.gs\.impl if"
        )
        with self.assertRaisesRegex(WrongTable, wanted), naming_table("gs://lake/t", "gs://lake/t/a.parquet"):
            raise error

    def test_others_have_no_second_class(self) -> None:
        error = PySparkException("ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem")
        wanted = r"hadoop-aws of its Hadoop's version \(spark\.jars\.packages\), or use union_arrow$"
        with (
            self.assertRaisesRegex(WrongTable, wanted),
            naming_table("s3://lake/t", "s3a://lake/t/a.parquet"),
        ):
            raise error
