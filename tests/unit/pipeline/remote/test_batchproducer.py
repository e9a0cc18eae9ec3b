"""The producer where a broker takes some messages of a request and not others, and is lost in between."""

from __future__ import annotations

from collections.abc import Callable
from unittest import TestCase

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, Refused
from hatwisted.clientcore.tasks import Waiter
from hatwisted.pipeline.remote.batchproducer import Outgoing, Producer
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.remoting import RemotingCommand

TOPIC = "Orders"
ROUTE = TopicRoute(
    broker_datas=[
        BrokerData(cluster="c", broker_name="broker-a", broker_addrs={0: "10.0.0.5:10911"}),
    ],
    queue_datas=[
        QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
    ],
)


class OneBroker:
    """A driver whose broker stores what isn't illegal; the `lost`th request for one message gets no answer."""

    settings = ClusterSettings(name_servers=("10.0.0.1:9876",), retries=3)

    def __init__(self, lost: Callable[[int], bool] = lambda number: False) -> None:
        self.stored: list[bytes] = []
        self.code = ResponseCode.MESSAGE_ILLEGAL
        self._lost = lost
        self._singles = 0

    def post(self, address: str, request: RemotingCommand) -> Waiter[RemotingCommand]:
        waiter: Waiter[RemotingCommand] = Waiter()
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            waiter.fire(RemotingCommand(ResponseCode.SUCCESS, request.opaque, body=encode_body(ROUTE)))
            return waiter
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            bodies = [bytes(entry[1]) for entry in decode_batch(request.body)]
        else:
            bodies, self._singles = [request.body], self._singles + 1
            if self._lost(self._singles):
                waiter.fail(BrokerGone(f"{address}: the connection was lost"))
                return waiter
        bad = any(b"illegal" in body for body in bodies)
        if not bad:
            self.stored += bodies
        code = self.code if bad and len(bodies) == 1 else ResponseCode.MESSAGE_ILLEGAL
        waiter.fire(RemotingCommand(code if bad else ResponseCode.SUCCESS, request.opaque, remark="too long"))
        return waiter

    def wait(self, waiter: Waiter[RemotingCommand]) -> RemotingCommand:
        return waiter.result()

    def ask(self, address: str, request: RemotingCommand) -> RemotingCommand:
        return self.wait(self.post(address, request))

    def pause(self, seconds: float) -> None:
        pass

    def is_dead(self, address: str) -> bool:
        return False


class OneByOneTests(TestCase):
    def send(self, broker: OneBroker) -> Producer:
        producer = Producer(broker)  # type: ignore[arg-type]
        for number, body in enumerate((b"0", b"1", b"illegal", b"3", b"4")):
            producer.send(Outgoing(number, TOPIC, body))
        producer.drain()
        return producer

    def test_what_is_acknowledged_is_neither_sent_nor_counted_again(self) -> None:
        for lost in range(1, 6):
            broker = OneBroker(lambda number, lost=lost: number == lost)  # type: ignore[misc]
            counts = self.send(broker).counts
            self.assertEqual(broker.stored, [b"0", b"1", b"3", b"4"], lost)
            self.assertEqual(counts.statuses, {"OK": 4})
            self.assertEqual((counts.bytes, counts.refused), (4, [(2, "too long")]))
            self.assertEqual(counts.resent, 1)

    def test_a_broker_that_stays_away_ends_it(self) -> None:
        broker = OneBroker(lambda number: number > 2)
        with self.assertRaises(BrokerGone):
            self.send(broker)
        self.assertEqual(broker.stored, [b"0", b"1"])

    def test_a_refusal_names_the_message_that_is_refused(self) -> None:
        broker = OneBroker()
        broker.code = ResponseCode.NO_PERMISSION
        with self.assertRaisesRegex(Refused, "message 2 for topic Orders"):
            self.send(broker)
