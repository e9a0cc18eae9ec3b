"""One run of our client through what it can do, against the cluster of the name server in argv[1].

Prints a word for each thing done; any failure ends it with a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, gatherResults

from hatwisted.client import (
    Cluster,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    SendStatus,
    TransactionState,
)
from hatwisted.client.driver import deferred
from hatwisted.wire import fastjson
from tests.support.patience import patient

COUNT = 60


async def until(reactor: Any, happened: Callable[[], bool]) -> None:
    while not happened():
        await task.deferLater(reactor, 0.02)


def say(word: str) -> None:
    print(word, flush=True)


async def program(reactor: Any, name_server: str) -> None:
    cluster = patient(Cluster(reactor, name_server))
    producer = cluster.producer("our-producer", coalesce=True)
    while "broker-a" not in (await cluster.admin().cluster_info()).broker_addr_table:
        await task.deferLater(reactor, 0.2)
    await producer.send(Message(topic="OurTopic", body=b"0", tags="red", keys=["first"]))
    results = await gatherResults(
        [producer.send(Message(topic="OurTopic", body=b"%d" % n, tags="red")) for n in range(1, COUNT)]
    )
    assert {result.status for result in results} == {SendStatus.OK}
    large = b"a large body " * 1000
    await producer.send(Message(topic="OurTopic", body=large, tags="red"))
    await producer.send(Message(topic="OurTopic", body=b"not for us", tags="blue"))
    say("sent")

    seen: list[bytes] = []
    retried: list[ReceivedMessage] = []

    def handle(batch: Sequence[ReceivedMessage]) -> None:
        for message in batch:
            if message.body == b"7" and message.reconsume_times == 0:
                raise ValueError("not now")
            if message.reconsume_times:
                retried.append(message)
        seen.extend(message.body for message in batch)

    consumer = cluster.consumer(
        "our-group", {"OurTopic": "red"}, on_messages=handle, batch=8, consume_from=ConsumeFrom.FIRST
    )
    await consumer.start()
    expected = {b"%d" % n for n in range(COUNT)} | {large}
    await until(reactor, lambda: set(seen) >= expected - {b"7"})
    assert b"not for us" not in seen
    say("consumed")
    await until(reactor, lambda: bool(retried))
    assert (retried[0].body, retried[0].topic) == (b"7", "OurTopic")
    say("retried")
    await consumer.stop()
    standings = await cluster.admin().progress("our-group")
    assert sum(each.consumed for each in standings if each.queue.topic == "OurTopic") == COUNT + 2, standings
    say("committed")

    admin = cluster.admin()
    await admin.create_topic("Made", queues=3)
    assert len(await admin.topic_offsets("Made")) == 3
    await admin.create_group("made-group")
    assert "made-group" in await admin.groups()
    moved = await admin.reset("our-group", "OurTopic", 0)
    assert moved and set(moved.values()) == {0}, moved
    await admin.delete_topic("Made")
    assert "Made" not in await admin.topics()
    say("administered")

    transactions = cluster.transaction_producer("our-transactions", lambda _: TransactionState.COMMIT)
    for body, state in ((b"yes", TransactionState.COMMIT), (b"no", TransactionState.ROLLBACK)):
        await transactions.send_in_transaction(Message(topic="Tx", body=body), lambda _, state=state: state)
    got: list[bytes] = []
    reader = cluster.consumer(
        "tx-group",
        {"Tx": "*"},
        on_messages=lambda batch: got.extend(each.body for each in batch),
        consume_from=ConsumeFrom.FIRST,
    )
    await reader.start()
    await until(reactor, lambda: bool(got))
    assert got == [b"yes"], got
    say("transacted")

    for number in range(12):
        await producer.send(Message(topic="InOrder", body=b"%d" % number, order_key="one"))
    ordered: list[int] = []

    def in_order(batch: Sequence[ReceivedMessage]) -> None:
        ordered.append(int(batch[0].body))
        if ordered.count(5) == 1 and ordered[-1] == 5:
            raise ValueError("not yet")

    orderly = cluster.consumer(
        "order-group", {"InOrder": "*"}, on_messages=in_order, orderly=True, consume_from=ConsumeFrom.FIRST
    )
    await orderly.start()
    await until(reactor, lambda: len(ordered) == 13)
    assert ordered == [*range(6), *range(5, 12)], ordered
    say("ordered")
    first = (await producer.send(Message(topic="InOrder", body=b"99", order_key="one"))).offset_id
    await until(reactor, lambda: ordered[-1] == 99)
    address = next(iter((await admin.cluster_info()).broker_addr_table.values())).broker_addrs[0]
    asked = {"consumerGroup": "order-group", "clientId": cluster.client_id}
    info = fastjson.loads((await deferred(cluster.session.ask(address, 307, asked))).body)
    assert sum(each["commitOffset"] for each in info["mqTable"].values()) == 13, info
    answer = await deferred(cluster.session.ask(address, 309, asked | {"msgId": first}))
    assert fastjson.loads(answer.body)["consumeResult"] == "CR_SUCCESS", answer
    assert ordered[-2:] == [99, 99]
    say("asked")
    await cluster.close()


if __name__ == "__main__":
    task.react(lambda reactor: Deferred.fromCoroutine(program(reactor, sys.argv[1])))
