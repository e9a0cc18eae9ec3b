"""Our own client with the words of the Java programs: a program for `ClientProgram`, or in a test's own process
(tests/support/twistedclient.py).

    send TOPIC PREFIX COUNT [DELAY SIZE] > sent BODY STATUS BROKER SECONDS; SIZE: bytes after the body's name
    burst TOPIC PREFIX COUNT            to one queue, all at once
    transact TOPIC BODY OUTCOME         COMMIT, ROLLBACK, UNKNOWN; asked about it later, it says COMMIT
    start NAME GROUP TOPIC MODE [BATCH PREFETCH PAUSED] MODE: CLUSTERING, ORDERLY
                                        > got NAME BODY QUEUE OFFSET AGAIN BROKER, for each try
                                        > call NAME OUTCOME BODY BODY..., for each call
    pause NAME, resume NAME, stop NAME

A message whose body begins with "bad" fails: always, and once in an orderly consumer. Arguments: name servers.
"""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.defer import gatherResults as gather
from twisted.logger import globalLogBeginner, textFileLogObserver

from hatwisted.client import (
    Cluster,
    ConsumeFrom,
    Consumer,
    Message,
    ReceivedMessage,
    TransactionState,
)
from hatwisted.clientcore import assignment, selection, session
from hatwisted.clientcore import consumer as consuming
from tests.support.patience import patient

INTERVALS: tuple[tuple[ModuleType, str, object], ...] = (
    # As the Java programs are told: a failover has to fit into a test.
    (session, "ROUTE_INTERVAL", 1.0),
    (session, "HEARTBEAT_INTERVAL", 1.0),
    (consuming, "COMMIT_INTERVAL", 1.0),
    (selection, "FAILURE_PAUSE", 6.0),
    # Locks that a master has lost with its life are taken again.
    (assignment, "RENEWAL_INTERVAL", 2.0),
    # A busy machine makes any broker slow for a moment, and it would be passed over for half a minute or more.
    (selection, "LATENCY_STEPS", ()),
)
"""What the client's constants are while it runs."""

Say = Callable[..., None]
"""What happens, in words."""


def say(*words: object) -> None:
    """To `ClientProgram`."""
    print("> " + "\t".join(map(str, words)), flush=True)


class Reader:
    """One consumer and its gate."""

    def __init__(
        self,
        cluster: Cluster,
        say: Say,
        name: str,
        group: str,
        topic: str,
        mode: str,
        batch: int,
        prefetch: int,
    ) -> None:
        self.say = say
        self.name = name
        self.orderly = mode == "ORDERLY"
        self.gate: Deferred[None] = succeed(None)
        self.waiting: list[Deferred[None]] = []
        self.paused = False
        self.consumer: Consumer = cluster.consumer(
            group,
            {topic: "*"},
            on_messages=self.handle,
            batch=batch,
            consume_from=ConsumeFrom.FIRST,
            orderly=self.orderly,
            suspension=0.1,
            max_reconsume=None if self.orderly else 2,
            prefetch_messages=prefetch,
        )

    async def handle(self, batch: Sequence[ReceivedMessage]) -> None:
        if self.paused:
            self.waiting.append(Deferred())
            await self.waiting[-1]
        for each in batch:
            queue = each.queue
            self.say(
                "got",
                self.name,
                name(each),
                queue.queue_id,
                each.queue_offset,
                each.reconsume_times,
                queue.broker_name,
            )
        bad = any(each.body.startswith(b"bad") and self.fails(each) for each in batch)
        self.say("call", self.name, "failed" if bad else "ok", *map(name, batch))
        if bad:
            raise ValueError("bad")

    def fails(self, message: ReceivedMessage) -> bool:
        return not self.orderly or message.reconsume_times == 0

    def resume(self) -> None:
        self.paused, waiting, self.waiting = False, self.waiting, []
        for each in waiting:
            each.callback(None)


def name(message: ReceivedMessage) -> str:
    return message.body.partition(b" ")[0].decode()


class OurClient:
    """Does what it is told in those words, and tells `say` what happens. Tell it `close` at the end."""

    def __init__(self, reactor: Any, name_servers: str, say: Say) -> None:
        self.reactor = reactor
        self.say = say
        self.servers = name_servers
        self.cluster = patient(Cluster(reactor, name_servers))
        self.producer = self.cluster.producer("our-producer", timeout=2.0, limit=60.0)  # each may stall
        self.transactions = self.cluster.transaction_producer("our-transactions", self.check)
        self.readers: dict[str, Reader] = {}
        self.members: dict[str, Cluster] = {}

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.say("asked", name(message))
        return TransactionState.COMMIT

    async def send(self, topic: str, prefix: str, count: str, delay: str = "0", size: str = "0") -> None:
        for number in range(int(count)):
            body = f"{prefix}{number}".encode()
            if size != "0":
                body += b" " + random.randbytes(int(size))  # which compression makes no smaller
            began = self.reactor.seconds()
            sent = await self.producer.send(Message(topic=topic, body=body, delay_level=int(delay)))
            took = self.reactor.seconds() - began
            self.say("sent", f"{prefix}{number}", sent.status.name, sent.queue.broker_name, f"{took:.3f}")

    async def burst(self, topic: str, prefix: str, count: str) -> None:
        queue = (await self.producer.queues(topic))[0]
        sends = [
            self.producer.send(Message(topic=topic, body=f"{prefix}{n}".encode()), queue=queue)
            for n in range(int(count))
        ]
        await gather(sends)

    async def transact(self, topic: str, body: str, outcome: str) -> None:
        await self.transactions.send_in_transaction(
            Message(topic=topic, body=body.encode()), lambda _: TransactionState[outcome]
        )

    async def start(
        self,
        who: str,
        group: str,
        topic: str,
        mode: str,
        batch: str = "1",
        prefetch: str = "32",
        paused: str = "",
    ) -> None:
        # A member of its own: a cluster link has one of each group.
        cluster = self.members[who] = patient(Cluster(self.reactor, self.servers))
        reader = self.readers[who] = Reader(
            cluster, self.say, who, group, topic, mode, int(batch), int(prefetch)
        )
        reader.paused = bool(paused)
        await reader.consumer.start()

    def pause(self, who: str) -> None:
        self.readers[who].paused = True

    def resume(self, who: str) -> None:
        self.readers[who].resume()

    async def stop(self, who: str) -> None:
        await self.readers.pop(who).consumer.stop()
        await self.members.pop(who).close()

    async def close(self) -> None:
        for who in list(self.readers):
            await self.stop(who)
        await self.cluster.close()

    async def obey(self, word: str, *words: str) -> None:
        done: Awaitable[None] | None = getattr(self, word)(*words)
        if done is not None:
            await done


async def serve(reactor: Any, name_servers: str) -> None:
    client, lines = OurClient(reactor, name_servers, say), Lines(reactor)
    say("ready")
    while (line := await lines.next()) is not None:
        try:
            await client.obey(*line.split("\t"))
            say("done")
        except Exception as error:
            traceback.print_exc()
            say("failed", f"{type(error).__name__}: {error}")
    await client.close()


class Lines:
    """Standard input, read by a thread of its own."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def next(self) -> Deferred[str | None]:
        waiter: Deferred[str | None] = Deferred()
        threading.Thread(target=self._read, args=(waiter,), daemon=True).start()
        return waiter

    def _read(self, waiter: Deferred[str | None]) -> None:
        line = sys.stdin.readline()
        self._reactor.callFromThread(waiter.callback, line.rstrip("\n") if line else None)


if __name__ == "__main__":
    for module, constant, value in INTERVALS:
        setattr(module, constant, value)
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    task.react(lambda reactor: maybeDeferred(lambda: Deferred.fromCoroutine(serve(reactor, sys.argv[1]))))
