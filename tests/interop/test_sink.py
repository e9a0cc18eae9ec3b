"""Rows of a table in RocketMQ's own brokers: each part of a message as it was meant, and found by operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hatwisted.pipeline.remote.rowcolumns import row_columns
from hatwisted.pipeline.remote.rowmessages import RowMessages, RowOptions
from hatwisted.pipeline.remote.rowsending import send_rows
from hatwisted.wire.topics import AUTO_CREATE_TOPIC
from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import wait_until
from tests.interop.conftest import OLDER_VERSION, needs
from tests.support import javaclient
from tests.support.clustermessages import PATIENCE, read_all, settings_of, wait_for_route
from tests.support.javaclient import JavaClient

COUNT = 300
TOPIC = "Rows"


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_rows_in_a_java_broker(tmp_path: Path, version: str) -> None:
    needs(JAVA)
    if reason := javarocketmq.available(version) or javaclient.unavailable(version):
        pytest.skip(reason)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
        master = javarocketmq.broker("master", tmp_path, settings, version=version)
        master.start()
        try:
            wait_for_route(group, AUTO_CREATE_TOPIC, brokers=1)
            send(group)
            wait_for_route(group, TOPIC, brokers=1)
            read: list[dict[str, Any]] = []

            def all_there() -> bool:
                """RocketMQ fills a queue a moment after it has answered."""
                read[:] = read_all(settings_of(group), TOPIC).sort_by("flag").to_pylist()
                return len(read) == COUNT

            wait_until(all_there, PATIENCE, "all rows are there, the delayed one as well")
            check(read)
            servers = f"127.0.0.1:{group.namesrv_port}"
            with JavaClient(version, "Mqadmin", tmp_path) as mqadmin:

                def shown() -> bool:
                    mqadmin.forget()
                    query = ("-t", TOPIC, "-i", read[7]["unique_key"])
                    mqadmin.tell("run", "queryMsgByUniqueKey", *query, "-n", servers)
                    return any("[k7]" in (event[0] if event else "") for event in mqadmin.events("printed"))

                wait_until(shown, PATIENCE, "mqadmin finds a row by its key")
        finally:
            master.kill()


def send(group: BrokerGroup) -> None:
    numbers = range(COUNT)
    rows = pa.RecordBatch.from_pydict(
        {
            "body": [f"row {number}" for number in numbers],
            "tags": [f"t{number % 3}" for number in numbers],
            "keys": [[f"k{number}"] for number in numbers],
            "properties": pa.array(
                [{"number": str(number)} for number in numbers], pa.map_(pa.string(), pa.string())
            ),
            "flag": list(numbers),
            "delay_level": [1 if number == 5 else 0 for number in numbers],
        }
    )
    options = RowOptions(columns=row_columns(rows.schema, topic=TOPIC), topic=TOPIC)
    counts = send_rows(settings_of(group), "rows", RowMessages(options, "query/0", 0), [rows])
    assert counts.statuses == {"OK": COUNT}


def check(found: list[dict[str, Any]]) -> None:
    assert [row["flag"] for row in found] == list(range(COUNT))
    for number, row in enumerate(found):
        assert row["body"] == f"row {number}".encode()
        assert (row["tags"], row["keys"]) == (f"t{number % 3}", [f"k{number}"])
        assert dict(row["properties"])["number"] == str(number)
    assert len({row["unique_key"] for row in found}) == COUNT
    assert len({row["queue_id"] for row in found}) > 1
