"""A table's files as Spark's Parquet reader finds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hatwisted.pipeline.delta.errors import WrongTable

PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "org.apache.hadoop:hadoop-gcp",
}
"""What a session needs for addresses of object stores, of which PySpark has none, by their schemes."""
_MISSING: Final = ("ClassNotFoundException", "UnsupportedFileSystemException")
_NOT_AT_GOOGLE: Final = "ComputeEngineCredentials cannot find the metadata server"
"""By it Hadoop finds credentials at `gs://`, unless it's told to look where all others do."""


def hadoop_path(path: str) -> str:
    """A file or folder as Hadoop's file systems call it. path: ours, or an address."""
    return f"s3a{path.removeprefix('s3')}" if path.startswith("s3://") else path


@contextmanager
def naming_table(table: str, place: str) -> Iterator[None]:
    """What Spark or its JVM raises of files becomes a WrongTable of one line.

    - table: which is read
    - place: of a file, as `hadoop_path` has it
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise WrongTable(f"{table}: Spark can't read its files: {_why(error, place)}") from error


def _why(error: Exception, place: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # py4j begins with the call, then has what the JVM threw.
    said = next((line[2:] for line in lines if line.startswith(": ")), lines[0] if lines else repr(error))
    scheme, found, _ = place.partition("://")
    package = PACKAGES.get(scheme)
    if found and package is not None and any(name in said for name in _MISSING):
        another = ", set spark.hadoop.fs.gs.impl if it has another one's class" if scheme == "gs" else ""
        return (
            f"this session knows no {scheme}://: give it {package} of its Hadoop's version"
            f" (spark.jars.packages){another}, or use union_arrow"
        )
    if found and _NOT_AT_GOOGLE in said:
        return (
            "this session finds credentials on Google's own machines alone: set spark.hadoop.fs.gs.auth.type to"
            " APPLICATION_DEFAULT for those of GOOGLE_APPLICATION_CREDENTIALS, or use union_arrow"
        )
    return said
