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
from hatwisted.broker.consumer.consumerprocessors import ConsumerProcessors
from hatwisted.broker.consumer.rebalancelocks import QueueLockProcessors, QueueLocks
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.send.replymessage import ReplyProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.store.messagestore import MessageStore


class ConsumerAdmin:
    """Answers about groups' members and progress.

    - clock: tells what is recent
    - store: has the queues
    - tables: topics, groups, offsets
    - consumers: who is connected
    - identity: whose queues they are
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        consumers: ConsumerProcessors,
        identity: BrokerIdentity,
    ) -> None:
        clients, topics = consumers.clients, tables.topics
        self.calls = ClientCalls(clock)
        self.stats = BrokerStats(
            clock, store.stats, identity.cluster, lambda topic: topics.get(topic) is not None
        )
        self.locks = QueueLocks(clock)
        self._processors = (
            QueueLockProcessors(self.locks),
            ConnectionProcessors(clock, clients),
            ConsumeStatsProcessors(clock, store, tables, clients, self.stats, identity),
            StatsProcessor(self.stats),
            OffsetResets(clock, store, tables, consumers, self.calls, identity.name),
            ConsumerRunningInfo(self.calls, clients, store, identity.name),
            ReplyProcessor(clock, topics, clients, self.calls, identity.store_address),
        )

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for processor in self._processors:
            processor.register_on(table)

    def start(self) -> None:
        """Start sampling, and forgetting lapsed locks."""
        self.stats.start()
        self.locks.start()

    def stop(self) -> None:
        """Stop both."""
        self.stats.stop()
        self.locks.stop()
