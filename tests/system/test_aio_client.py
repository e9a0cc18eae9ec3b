"""hatwisted.aio in plain asyncio programs, against our own name server, master and slave."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hatwisted.aio import (
    RECONSUME_LATER,
    AckIndex,
    BadMessage,
    ClientError,
    Closed,
    Cluster,
    ConnectFailed,
    ConsumeFrom,
    Consumer,
    Message,
    NoNameServer,
    ReceivedMessage,
    SendStatus,
    TransactionState,
)
from hatwisted.wire.codes import ResponseCode
from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from tests.support.patience import patient

SETTINGS = {**SMALL_STORE, "messageDelayLevel": "1s 1s 1s 1s 1s"}
SECONDS = 120.0


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    with BrokerGroup(tmp_path_factory.mktemp("aio"), namesrv_kind=OURS, settings=SETTINGS) as pair:
        pair.start()
        yield pair
        for server in (pair.master, pair.slave, pair.namesrv):
            assert server is not None and "Traceback" not in server.log_text()


Story = Callable[[Cluster], Coroutine[Any, Any, None]]


@pytest.fixture
def tell(group: BrokerGroup) -> Callable[[Story], None]:
    """Runs a coroutine with a cluster link, as a program would."""

    async def whole(story: Story) -> None:
        async with asyncio.timeout(SECONDS), Cluster(f"127.0.0.1:{group.namesrv_port}") as cluster:
            await story(patient(cluster))

    return lambda story: asyncio.run(whole(story))


@asynccontextmanager
async def reading(cluster: Cluster, topic: str, **options: Any) -> AsyncIterator[Consumer]:
    group = f"g-{topic}"
    options.setdefault("consume_from", ConsumeFrom.FIRST)
    async with cluster.consumer(group, {topic: "*"}, **options) as consumer:
        yield consumer


async def send(cluster: Cluster, topic: str, *bodies: bytes) -> None:
    async with cluster.producer(f"p-{topic}") as producer:
        for body in bodies:
            await producer.send(Message(topic=topic, body=body, order_key="one"))


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async for message in consumer:
        found.append(message)
        if len(found) == count:
            consumer.settle(message)
            break
    return found


def test_no_reactor_is_needed(group: BrokerGroup) -> None:
    """A program of its own, in which Twisted can't even be imported."""
    text = f"""
import asyncio, sys
sys.modules["twisted"] = None
from hatwisted.aio import Cluster, Message
async def main():
    async with Cluster("127.0.0.1:{group.namesrv_port}") as cluster:
        print((await cluster.producer().send(Message(topic="Plain", body=b"x"))).status.name)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == ("OK\n", "")


def test_what_is_sent_is_received_once_and_in_order(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        bodies = [b"%d" % number for number in range(100)]
        await send(cluster, "Order", *bodies)
        async with reading(cluster, "Order") as consumer:
            assert [each.body for each in await take(consumer, 100)] == bodies
            assert sum(consumer.progress.values()) == 100
        standings = await cluster.admin().progress("g-Order")
        assert sum(each.lag for each in standings) == 0

    tell(story)


def test_sends_beside_each_other_share_requests_and_each_has_its_result(
    tell: Callable[[Story], None],
) -> None:
    async def story(cluster: Cluster) -> None:
        producer = cluster.producer("p", coalesce=True, max_in_flight=8)
        sends = [producer.send(Message(topic="Beside", body=b"%d" % n)) for n in range(500)]
        results = await asyncio.gather(*sends)
        assert {each.status for each in results} == {SendStatus.OK}
        assert len({(each.queue, each.queue_offset) for each in results}) == 500
        assert len(await producer.send_batch([Message(topic="Beside", body=b"b")] * 3)) == 3
        await producer.settled()

    tell(story)


def test_a_send_that_is_cancelled_leaves_nothing_behind(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        producer = cluster.producer("p", max_in_flight=1)
        await producer.send(Message(topic="Cancelled", body=b"0"))
        first = asyncio.ensure_future(producer.send(Message(topic="Cancelled", body=b"1")))
        waits = asyncio.ensure_future(producer.send(Message(topic="Cancelled", body=b"2")))
        await asyncio.sleep(0)
        waits.cancel()
        await first
        with pytest.raises(asyncio.CancelledError):
            await waits
        await asyncio.wait_for(producer.ready(), SECONDS)
        await asyncio.wait_for(producer.settled(), SECONDS)
        last = await producer.send(Message(topic="Cancelled", body=b"3"))
        assert last.status is SendStatus.OK
        # Queues follow the log a moment later.
        while (stored := await _stored(cluster, "Cancelled")) < 3:
            await asyncio.sleep(0.05)
        assert stored == 3

    tell(story)


async def _stored(cluster: Cluster, topic: str) -> int:
    return sum(end for _, end in (await cluster.admin().topic_offsets(topic)).values())


def test_without_auto_commit_progress_is_noted_when_the_program_says_so(
    tell: Callable[[Story], None],
) -> None:
    async def story(cluster: Cluster) -> None:
        await send(cluster, "Manual", b"0", b"1", b"2", b"3")
        async with reading(cluster, "Manual", auto_commit=False) as consumer:
            assert [each.body for each in await take(consumer, 2)] == [b"0", b"1"]
            await consumer.commit()
            assert [each.body for each in await take(consumer, 1)] == [b"2"]
        async with reading(cluster, "Manual", auto_commit=False) as consumer:
            assert [each.body for each in await take(consumer, 2)] == [b"2", b"3"]

    tell(story)


def test_seek_goes_on_elsewhere(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        await send(cluster, "Sought", *[b"%d" % n for n in range(6)])
        async with reading(cluster, "Sought") as consumer:
            found = await take(consumer, 6)
            await consumer.seek(found[0].queue, 4)
            assert [each.body for each in await take(consumer, 2)] == [b"4", b"5"]
            await consumer.seek(found[0].queue, 1)
            assert (await take(consumer, 1))[0].body == b"1"

    tell(story)


def test_a_paused_queue_gives_nothing_until_it_is_resumed(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        await send(cluster, "Paused", b"0")
        async with reading(cluster, "Paused") as consumer:
            (first,) = await take(consumer, 1)
            consumer.pause([first.queue])
            await send(cluster, "Paused", b"1")
            following = asyncio.ensure_future(consumer.next_message())
            await asyncio.sleep(0.5)
            assert not following.done()
            consumer.resume([first.queue])
            message = await following
            assert message is not None and message.body == b"1"
            consumer.settle(message)

    tell(story)


def test_a_handler_that_fails_is_logged_with_its_traceback_and_its_message_comes_again(
    tell: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        await send(cluster, "Fails", b"bad")
        seen: list[int] = []

        async def handle(batch: Sequence[ReceivedMessage]) -> None:
            await asyncio.sleep(0)
            seen.append(batch[0].reconsume_times)
            if not batch[0].reconsume_times:
                raise ZeroDivisionError("not now")

        async with reading(cluster, "Fails", on_messages=handle):
            while seen != [0, 1]:
                await asyncio.sleep(0.02)

    with caplog.at_level(logging.ERROR):
        tell(story)
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.levelno == logging.ERROR and "the program failed" in record.message
    assert record.exc_info is not None and isinstance(record.exc_info[1], ZeroDivisionError)


@pytest.mark.parametrize("said", [AckIndex(3), RECONSUME_LATER])
def test_b125_ack_index_of_a_batch(tell: Callable[[Story], None], said: AckIndex) -> None:
    """Those after the index go back, each on its own; the others are done with."""
    topic = f"Acked{said.value + 1}"

    async def story(cluster: Cluster) -> None:
        again: list[bytes] = []
        batches: list[list[bytes]] = []
        gate = asyncio.Event()

        async def handle(batch: Sequence[ReceivedMessage]) -> AckIndex | None:
            bodies = [each.body for each in batch]
            if bodies == [b"first"]:
                await gate.wait()
            elif batch[0].reconsume_times:
                again.extend(bodies)
            else:
                batches.append(bodies)
                return said
            return None

        await send(cluster, topic, b"first")
        async with reading(cluster, topic, on_messages=handle, batch=8) as consumer:
            await send(cluster, topic, *[b"%d" % n for n in range(8)])
            while max(each.buffered for each in consumer._core.readers.values()) < 9:
                await asyncio.sleep(0.02)
            gate.set()
            expected = [b"%d" % n for n in range(said.value + 1, 8)]
            while len(again) < len(expected):
                await asyncio.sleep(0.02)
            assert (batches, sorted(again)) == ([[b"%d" % n for n in range(8)]], expected)

    tell(story)


def test_b125_a_whole_batch_that_fails_goes_back_singly(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        again: list[bytes] = []
        calls: list[int] = []
        gate = asyncio.Event()

        async def handle(batch: Sequence[ReceivedMessage]) -> None:
            if batch[0].body == b"first":
                await gate.wait()
            elif batch[0].reconsume_times:
                again.extend(each.body for each in batch)
            else:
                calls.append(len(batch))
                raise ValueError("all of them")

        await send(cluster, "Whole", b"first")
        options: dict[str, Any] = {"on_messages": handle, "batch": 4, "whole_batch": True}
        async with reading(cluster, "Whole", **options) as consumer:
            await send(cluster, "Whole", b"0", b"1", b"2", b"3")
            while max(each.buffered for each in consumer._core.readers.values()) < 5:
                await asyncio.sleep(0.02)
            gate.set()
            while len(again) < 4:
                await asyncio.sleep(0.02)
            assert (calls, sorted(again)) == ([4], [b"0", b"1", b"2", b"3"])

    tell(story)


def test_transactions_and_admin(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        async def work(message: Message) -> TransactionState:
            await asyncio.sleep(0)
            return TransactionState.COMMIT if message.body == b"yes" else TransactionState.ROLLBACK

        producer = cluster.transaction_producer("t", lambda message: TransactionState.COMMIT)
        admin = cluster.admin()
        await admin.create_topic("Money", queues=1)
        for body in (b"no", b"yes"):
            await producer.send_in_transaction(Message(topic="Money", body=body), work)
        async with reading(cluster, "Money") as consumer:
            assert (await take(consumer, 1))[0].body == b"yes"
            assert list(await admin.members("g-Money")) == [cluster.client_id]
        assert "Money" in await admin.topics()
        await admin.delete_topic("Money")
        assert "Money" not in await admin.topics()

    tell(story)


def test_errors_are_client_errors(tell: Callable[[Story], None]) -> None:
    async def story(cluster: Cluster) -> None:
        producer = cluster.producer("p")
        with pytest.raises(BadMessage, match="a body must be bytes"):
            await producer.send(Message(topic="T", body="text"))  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="group p has a member"):
            cluster.producer("p")
        await producer.stop()
        with pytest.raises(Closed):
            await producer.send(Message(topic="T", body=b""))

    tell(story)


def test_nobody_there() -> None:
    async def story() -> None:
        port = free_port()
        async with Cluster(f"127.0.0.1:{port}") as cluster:
            with pytest.raises(NoNameServer, match="can't connect"):
                await cluster.producer().send(Message(topic="T", body=b""))
            with pytest.raises(ConnectFailed):
                await cluster.admin().broker_info(f"127.0.0.1:{port}")

    asyncio.run(story())


def slave_knows(group: BrokerGroup, topic: str) -> bool:
    """Has the slave its messages, and heard of the topic and of the group's retries?"""
    group.wait_caught_up()
    with group.slave_client() as client:
        codes = [client.pull(each, 0, 0).code for each in (topic, f"%RETRY%g-{topic}")]
    return ResponseCode.TOPIC_NOT_EXIST not in codes


def test_a_master_that_dies_is_survived_by_the_slave_for_reading(
    group: BrokerGroup, tell: Callable[[Story], None]
) -> None:
    async def prepared(cluster: Cluster) -> None:
        await send(cluster, "Survives", *[b"%d" % n for n in range(50)])
        async with reading(cluster, "Survives", auto_commit=False):
            pass  # the group's topic of retries is made by its first consumer

    async def story(cluster: Cluster) -> None:
        await asyncio.to_thread(wait_until, lambda: slave_knows(group, "Survives"), 60, "the slave has it")
        async with reading(cluster, "Survives", prefetch_messages=1) as consumer:
            found = [each.body for each in await take(consumer, 5)]
            group.master.kill()
            found += [each.body for each in await take(consumer, 45)]
            assert found == [b"%d" % n for n in range(50)]

    async def whole() -> None:
        async with asyncio.timeout(SECONDS), Cluster(f"127.0.0.1:{group.namesrv_port}") as cluster:
            await story(cluster)

    tell(prepared)  # a send that is repeated would be stored twice
    asyncio.run(whole())
