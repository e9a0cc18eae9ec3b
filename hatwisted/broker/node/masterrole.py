"""A master: takes puts, delivers what is delayed, asks about undecided transactions, and lets slaves have it all.

All ways by which messages come into a master end in the store's one append, and one PutAcks answers them: sends,
what consumers send back, decisions of transactions, and what the broker puts itself when it's due.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.broker.admin.hastatus import HAStatusProcessor
from hatwisted.broker.delay.schedule import ScheduleService
from hatwisted.broker.node.brokernode import NodeParts
from hatwisted.broker.node.losttopics import make_lost_topics
from hatwisted.broker.node.progressanswers import ProgressAnswers
from hatwisted.broker.put.innerput import InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.sendback import SendBackProcessor
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor
from hatwisted.broker.transaction.endtransaction import EndTransactionProcessor
from hatwisted.broker.transaction.transactioncheck import CheckOptions, TransactionCheck
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.wire.codes import RequestCode

DRAIN_LIMIT = 3.0
"""Seconds that an orderly stop waits for the slaves to have what was appended."""


class MasterRole:
    """What a node does as a master.

    - node: what both roles have
    - acks: answers all puts
    - state: may clients send at present?
    - checks: when undecided transactions are asked about
    """

    def __init__(self, node: NodeParts, acks: PutAcks, state: SendState, checks: CheckOptions) -> None:
        clock, store, tables, identity = node.clock, node.store, node.tables, node.identity
        self._ha = node.ha
        self._store = store
        self._topics = tables.topics
        self._runtime = node.runtime
        self._state = state
        self.acks = acks
        self._stale = node.consumers.progress.stale
        self._last_run = node.last_run
        self._new_topics = node.new_topics
        self.puts = InnerPuts(store, acks, identity.store_host)
        count_sent_back = node.consumer_admin.stats.count_sent_back
        own_puts = InnerPuts(store, acks.without_slaves(), identity.store_host)
        self._check = TransactionCheck(clock, store, own_puts, tables, node.consumers.clients, checks)
        self._schedule = ScheduleService(clock, store, own_puts, tables.delays)
        self._sources = [self._schedule.figures, self._ha.figures]
        self.processors = ProcessorTable()
        sends = SendProcessor(store, acks, tables, identity, state)
        self.processors.register_batch(SEND_CODES, sends.process)
        SendBackProcessor(store, self.puts, tables, state, count_sent_back).register_on(self.processors)
        EndTransactionProcessor(clock, store, self.puts, tables.topics, state).register_on(self.processors)
        node.offset_sync.register_join_on(self.processors)
        self._progress = ProgressAnswers(clock, lambda: store.log.max_offset, node.ha.acked_from)
        for code in (RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET):
            self.processors.register(code, self._progress.over(node.processors.handlers[code]))
        status = HAStatusProcessor(store.log, node.ha, None)
        self.processors.register(RequestCode.GET_BROKER_HA_STATUS, status.status)

    def start(self) -> None:
        """Deliver delayed messages, and ask about undecided ones. A master dials no one (B16)."""
        self._stale.begin(complete=self._last_run.serve(master=True))
        make_lost_topics(self._store, self._topics)
        self._new_topics.start()
        for source in self._sources:
            self._runtime.add_source(source)
        self._schedule.start()
        self._check.start()

    def stop_taking(self) -> None:
        """Take nothing more from clients."""
        self._state.stop()
        self._progress.stop()
        self._new_topics.stop()

    def stop(self) -> Deferred[Any]:
        """Put nothing more of our own, and let the slaves have what there is."""
        for source in self._sources:
            self._runtime.remove_source(source)
        stopped = self._check.stop().addCallback(lambda _: self._schedule.stop())
        return stopped.addCallback(lambda _: self._ha.drain(DRAIN_LIMIT))
