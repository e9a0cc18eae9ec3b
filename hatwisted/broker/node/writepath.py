"""All ways by which messages come into a master: sends, what consumers send back, what the broker puts itself
when it is due. One PutAcks answers them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.delay.schedule import ScheduleService
from hatwisted.broker.put.innerput import InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.requests import Refusal
from hatwisted.broker.send.sendback import SendBackProcessor
from hatwisted.broker.send.sendmessage import SEND_CODES, SendProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.transaction.endtransaction import EndTransactionProcessor
from hatwisted.broker.transaction.transactioncheck import CheckOptions, TransactionCheck
from hatwisted.remoting.server import ProcessorTable
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.registration import PERM_WRITE


class WritePath:
    """Composes them.

    store, tables: loaded; cluster, store_host: as for SendProcessor; permission: the broker's present
    brokerPermission; count_sent_back: told (group, topic) of each message taken back; clients, checks: whose
    undecided transactions are asked about, and when.
    """

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        tables: BrokerTables,
        acks: PutAcks,
        cluster: str,
        store_host: bytes,
        permission: Callable[[], int],
        count_sent_back: Callable[[str, str], None],
        clients: ClientTable,
        checks: CheckOptions,
    ) -> None:
        self._permission = permission
        self._address = str(HostPort.unpack(store_host, ipv6=len(store_host) == 20)).rpartition(":")[0]
        self.puts = InnerPuts(store, acks, store_host)
        self._sends = SendProcessor(
            store, acks, tables.topics, cluster, store_host, tables.groups, self._forbidden
        )
        self._back = SendBackProcessor(
            store, self.puts, tables.topics, tables.groups, self._forbidden, count_sent_back
        )
        self._ends = EndTransactionProcessor(clock, store, self.puts, tables.topics)
        self._check = TransactionCheck(
            clock, store, self.puts, tables.offsets, tables.topics, clients, checks
        )
        deliveries = InnerPuts(store, acks.without_slaves(), store_host)
        self._schedule = ScheduleService(clock, store, deliveries, tables.delays)

    def _forbidden(self) -> Refusal | None:
        if self._permission() & PERM_WRITE:
            return None
        return Refusal(
            ResponseCode.NO_PERMISSION, f"the broker[{self._address}] sending message is forbidden"
        )

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        table.register_batch(SEND_CODES, self._sends.process)
        self._back.register_on(table)
        self._ends.register_on(table)

    def start(self) -> None:
        """Begin to deliver delayed messages, and to ask about undecided ones."""
        self._schedule.start()
        self._check.start()

    def refuse(self) -> None:
        """Take nothing from clients any more: the broker is stopping."""
        self._sends.draining = self._back.draining = self._ends.draining = True

    def stop(self) -> Deferred[None]:
        """Put nothing of our own any more; fires when nothing of it is open."""
        return self._check.stop().addCallback(lambda _: self._schedule.stop())

    def figures(self) -> Mapping[str, str]:
        """Entries of the runtime info."""
        return self._schedule.figures()
