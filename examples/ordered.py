"""Bookings of two accounts: sent by account, consumed in order, though one of them fails at first.

python examples/ordered.py [NAME_SERVERS]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from hatwisted.client import Cluster, ConsumeFrom, Message, ReceivedMessage

ACCOUNTS = ("alice", "bob")
BOOKINGS = 5


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876") -> None:
    cluster = Cluster(reactor, name_servers)
    booked: dict[str, list[str]] = {account: [] for account in ACCOUNTS}
    done: Deferred[None] = Deferred()

    def book(batch: Sequence[ReceivedMessage]) -> None:
        for message in batch:
            account, booking = message.body.decode().split()
            if booking == "2" and not message.reconsume_times:
                # The queue is suspended for a second, then this message is delivered again, before later ones.
                raise RuntimeError(f"{account}'s ledger is locked")
            booked[account].append(booking)
        if all(len(each) == BOOKINGS for each in booked.values()) and not done.called:
            done.callback(None)

    try:
        producer = cluster.producer("examples")
        for number in range(BOOKINGS):
            for account in ACCOUNTS:
                # One key, one queue. The next one is sent once this one is stored: that determines the order.
                await producer.send(
                    Message(topic="Bookings", body=f"{account} {number}".encode(), order_key=account)
                )
        ledger = {"Bookings": "*"}
        consumer = cluster.consumer(
            "ledger", ledger, on_messages=book, orderly=True, consume_from=ConsumeFrom.FIRST
        )
        await consumer.start()
        await done
        for account, bookings in booked.items():
            print(f"{account}: {' '.join(bookings)}")
    finally:
        await cluster.close()


if __name__ == "__main__":
    react(main, sys.argv[1:])
