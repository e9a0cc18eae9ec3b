"""A stream whose options can't be used, as a reader that says so.

Spark calls `stop` on a stream's reader even if there is none, since making it failed; what the user then sees is
an UnboundLocalError, and not the mistake. So the mistake is kept until Spark asks the reader for something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from hatwisted.clientcore.errors import ClientError
from hatwisted.pipeline.errors import PipelineError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises `error` at the first question."""

    def __init__(self, error: PipelineError | ClientError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._raise()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._raise()

    def prepareForTriggerAvailableNow(self) -> None:
        self._raise()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._raise()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._raise()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._raise()

    def _raise(self) -> NoReturn:
        raise self._error


def reader_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """What `make` gives, or a reader that tells its mistake."""
    try:
        return make()
    except (PipelineError, ClientError) as error:
        return RefusedStream(error)
