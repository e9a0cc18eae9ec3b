"""The benchmark's pulls by our own clients read a whole topic of a master, each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench import pulljob
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import wait_until

TOPIC, QUEUES, EACH = "bench", 4, 50
SECONDS = 60.0


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with BrokerGroup(tmp_path_factory.mktemp("pull"), namesrv_kind=OURS, role="ASYNC_MASTER") as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        group.wait_registered(group.master_port)
        with group.master_client() as client:
            for number in range(QUEUES * EACH):
                assert client.send(TOPIC, b"%d" % number, number % QUEUES).code == 0
            wait_until(
                lambda: [client.max_queue_offset(TOPIC, queue) for queue in range(QUEUES)] == [EACH] * QUEUES,
                SECONDS,
                "all messages are in their queues",
            )
        yield {"namesrv": f"127.0.0.1:{group.namesrv_port}", "topic": TOPIC, "records": QUEUES * EACH}


@pytest.mark.parametrize("work", [pulljob.pull, pulljob.consume])
def test_all_messages_at_each_repetition(job: dict[str, Any], work: Any) -> None:
    run, another_process = work(job), work(job)
    assert [run(), run(), another_process()] == [QUEUES * EACH] * 3
