"""All that tools and other clients ask about, or of, the clients of a broker, put together.

The parts share the tables of clients and offsets, the calls to clients, and the statistics; a node makes this
one and registers it.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.admin.brokerstats import BrokerStats, StatsProcessor
from hatwisted.broker.admin.connections import ConnectionProcessors
from hatwisted.broker.admin.consumestats import ConsumeStatsProcessors
from hatwisted.broker.admin.resetoffset import OffsetResets
from hatwisted.broker.admin.runninginfo import ConsumerRunningInfo
from hatwisted.broker.consumer.clientcalls import ClientCalls
from hatwisted.broker.consumer.processors import ConsumerProcessors
from hatwisted.broker.consumer.queuelocks import QueueLockProcessors, QueueLocks
from hatwisted.broker.send.replymessage import ReplyProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.remoting.server import ProcessorTable
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.hostport import HostPort


class ConsumerAdmin:
    """broker_name, cluster: as configured; store_host: 8 or 20 bytes, this broker's address in its messages."""

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        consumers: ConsumerProcessors,
        broker_name: str,
        cluster: str,
        store_host: bytes,
    ) -> None:
        clients, progress = consumers.clients, consumers.progress
        topics, groups, offsets = tables.topics, tables.groups, tables.offsets
        address = str(HostPort.unpack(store_host, 0, ipv6=len(store_host) == 20))
        self.calls = ClientCalls(clock)
        self.stats = BrokerStats(clock, store.stats, cluster, lambda topic: topics.get(topic) is not None)
        self.locks = QueueLocks(clock)
        self._processors = (
            QueueLockProcessors(self.locks),
            ConnectionProcessors(clients),
            ConsumeStatsProcessors(
                clock, store, topics, groups, offsets, clients, self.stats, broker_name, address
            ),
            StatsProcessor(self.stats),
            OffsetResets(store, topics, offsets, progress, clients, self.calls, broker_name),
            ConsumerRunningInfo(self.calls, clients, store, broker_name),
            ReplyProcessor(clock, topics, clients, self.calls, address),
        )

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for processor in self._processors:
            processor.register_on(table)

    def start(self) -> None:
        """Begin to sample, and to forget lapsed locks."""
        self.stats.start()
        self.locks.start()

    def stop(self) -> None:
        """End that."""
        self.stats.stop()
        self.locks.stop()
