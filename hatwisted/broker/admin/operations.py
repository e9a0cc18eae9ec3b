"""All that operators ask of a broker's topics, groups, messages and configuration, put together."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.admin.adminprocessor import AdminProcessors
from hatwisted.broker.admin.brokerconfig import BrokerConfigProcessors
from hatwisted.broker.admin.brokerstats import BrokerStats
from hatwisted.broker.admin.groupadmin import GroupAdmin
from hatwisted.broker.admin.messagequery import MessageQueryProcessor
from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.admin.topicadmin import TopicAdmin
from hatwisted.broker.admin.topicstats import TopicView
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.tables import BrokerTables
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.server import ProcessorTable
from hatwisted.store.messagestore import MessageStore


class Operations:
    """settled, slave, hears_master: see TopicAdmin; config, check: see BrokerConfigProcessors."""

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        clients: ClientTable,
        stats: BrokerStats,
        runtime: RuntimeInfo,
        broker_name: str,
        config: LiveConfig[BrokerConfig],
        *,
        settled: Callable[[], Deferred[None]],
        check: Callable[[BrokerConfig], object] = lambda config: None,
        slave: bool = False,
        hears_master: Callable[[], bool] = lambda: True,
    ) -> None:
        topics, groups, offsets = tables.topics, tables.groups, tables.offsets
        self._processors = (
            AdminProcessors(store, topics, groups, offsets, tables.delays, runtime),
            TopicAdmin(clock, store, topics, offsets, settled, slave=slave, hears_master=hears_master),
            TopicView(store, topics, offsets, clients, tables.filters, broker_name),
            GroupAdmin(groups, offsets, stats, slave=slave),
            MessageQueryProcessor(store),
            BrokerConfigProcessors(clock, config, check),
        )

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for processor in self._processors:
            processor.register_on(table)
