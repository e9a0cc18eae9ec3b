"""Makes a topic and a group, shows the cluster and the group's progress, and resets it to the beginning.

python examples/admin.py [NAME_SERVERS]
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from hatwisted.client import Cluster, ConsumeFrom, Message


async def main(reactor: Any, name_servers: str = "127.0.0.1:9876") -> None:
    cluster = Cluster(reactor, name_servers)
    try:
        admin = cluster.admin()
        for name, broker in sorted((await admin.cluster_info()).broker_addr_table.items()):
            for broker_id, address in sorted(broker.broker_addrs.items()):
                end = (await admin.broker_info(address))["commitLogMaxOffset"]
                print(f"{name} {broker_id} at {address}: log ends at {end}")

        await admin.create_topic("Invoices", queues=2)
        await admin.create_group("accounting", retryMaxTimes=3)
        print("topic Invoices is there:", "Invoices" in await admin.topics())

        await cluster.producer("examples").send(Message(topic="Invoices", body=b"4711"))
        consumer = cluster.consumer("accounting", {"Invoices": "*"}, consume_from=ConsumeFrom.FIRST)
        await consumer.start()
        async for message in consumer:
            consumer.settle(message)
            break
        await consumer.stop()
        print("consumed:", sum(queue.consumed for queue in await admin.progress("accounting")))

        await admin.reset(
            "accounting", "Invoices", 0
        )  # ms since the epoch: the first message stored since then
        print("to be consumed again:", sum(queue.lag for queue in await admin.progress("accounting")))
    finally:
        await cluster.close()


if __name__ == "__main__":
    react(main, sys.argv[1:])
