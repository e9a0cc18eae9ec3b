"""From a send request to the put that the log is asked for: may it be sent, and where is it stored?

What is found wrong here is the producer's mistake. A topic is looked up and judged once, as long as the table of
topics stays as it is, and the messages after the first cost a dict access.

Where 4.9.7 and 5.x differ: batches to a retry topic are refused as in 5.x (4.9.7 stores them, and their messages
are tried for ever), and a copy that a consumer older than 4.6.1 sends to its retry topic is no half message
although it says TRAN_MSG, as in 5.x (4.9.7 parks it). One deviation of ours: a message with sysFlag 4 and without
TRAN_MSG is a half as well, where RocketMQ stores it in its own topic for nobody to see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hatwisted.broker.consumer.consumerprocessors import ConsumerTables
from hatwisted.broker.delay.delayrouting import route_delayed
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.requests import Refusal
from hatwisted.broker.send.deadletter import DLQ_QUEUES, dead_letter_topic, max_times, unknown_group
from hatwisted.broker.send.sentproperties import SentProperties
from hatwisted.broker.transaction.halfmessages import HALF_QUEUE, park
from hatwisted.kernel import UsualPuts
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.put import Entry, Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.registration import UNIT, DataVersion
from hatwisted.wire.remoting import RemotingCommand, SendCommand
from hatwisted.wire.requestheader import NOT_SAID, SendHeader, int_field, parse_send_v1, parse_send_v2
from hatwisted.wire.topics import RETRY_PREFIX

_DELAY = layout.PROPERTY_DELAY + "\x01"
_TRANSACTION = layout.PROPERTY_TRANSACTION + "\x01"


class Refused(Exception):
    """A send that isn't even tried: response code and remark for the producer."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code


def _refused(refusal: Refusal) -> Refused:
    return Refused(refusal.code, refusal.remark)


class Admission:
    """Judges sends.

    - store, tables, state: as SendProcessor
    - cluster: is in every stored message
    """

    def __init__(
        self,
        store: MessageStore,
        tables: ConsumerTables,
        cluster: str,
        state: SendState,
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._forbidden = state.forbidden
        self._properties = SentProperties(cluster)
        self._round_robin = 0
        self._known: dict[str, int] = {}
        self._known_of: DataVersion | None = None
        """The version of the topics for which they were judged."""
        self.usual = None if UsualPuts is None else UsualPuts(self._properties.pair, Put)
        """A quicker way to the puts of sends about which there's nothing to judge, or None."""

    def known(self) -> dict[str, int]:
        """Number of queues of the topics that sends of any producer may go to, as far as that has been asked. For
        one read: the next one asks again."""
        if self._known_of is not self._topics.version or self._forbidden() is not None:
            self._known = {}
            self._known_of = self._topics.version
        return self._known

    def put(
        self, connection: RemotingConnection, request: RemotingCommand, known: dict[str, int]
    ) -> Put[RemotingCommand]:
        """What to append for a request. Raises Refused, BadRequestField or CorruptBatch.

        - connection: the producer's
        - request: of one of SEND_CODES
        - known: see there
        """
        header = _header_of(request)
        topic, queue_id = header.topic, header.queue_id
        if not 0 <= queue_id < known.get(topic, 0):
            queue_id = self._queue(connection, header, known)
            if topic.startswith(RETRY_PREFIX):
                topic = self._retried(header, request)
        asked_id = queue_id
        if topic is not header.topic:
            queue_id %= DLQ_QUEUES
        text = header.properties
        entries: Collection[Entry]
        sys_flag = header.sys_flag & ~layout.SYS_BORN_HOST_V6
        if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
            entries, shared, size, wait = self._batch(header, request.body)
        else:
            if sys_flag & layout.SYS_TRANSACTION_MASK or _TRANSACTION in text or _DELAY in text:
                topic, queue_id, properties, wait = self._parked(header, topic, queue_id)
                sys_flag &= ~layout.SYS_TRANSACTION_MASK
            else:
                properties, wait = self._properties.stored(text)
            entries = ((header.flag, request.body, properties),)
            shared = b""
            size = len(request.body) + len(properties)
        if len(connection.host_bytes) == 20:
            sys_flag |= layout.SYS_BORN_HOST_V6
        return Put(
            topic,
            queue_id,
            entries,
            connection.host_bytes,
            header.born_timestamp,
            sys_flag,
            header.reconsume_times,
            0,
            wait,
            request,
            shared,
            size,
            asked_id,
        )

    # -- topic and queue -------------------------------------------------------------------------------------

    def _queue(self, connection: RemotingConnection, header: SendHeader, known: dict[str, int]) -> int:
        """The queue to append to, once topic and queue are found allowed; notes the topic in `known`."""
        self._check_permission(header.topic)
        topic = self._topics.for_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            UNIT if header.unit_mode else 0,
        )
        if isinstance(topic, Refusal):
            raise _refused(topic)
        count = max(topic.write_queue_nums, topic.read_queue_nums)
        if not header.topic.startswith(RETRY_PREFIX):
            known[header.topic] = count  # a retry topic has more rules, for each message
        queue_id = header.queue_id
        if queue_id >= count:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{queue_id}] is illegal, topic {header.topic} has {topic.write_queue_nums} "
                f"queues to write. Producer: {connection.peer}",
            )
        if queue_id < 0:
            self._round_robin += 1
            return self._round_robin % max(topic.write_queue_nums, 1)
        return queue_id

    def _check_permission(self, name: str) -> None:
        """What the broker as a whole allows. RocketMQ asks this of ordered topics only: other producers learn
        from the name servers to send elsewhere, and meanwhile nothing of theirs fails."""
        refusal = self._forbidden()
        if refusal is not None:
            topic = self._topics.get(name)
            if topic is not None and topic.order:
                raise _refused(refusal)

    def _retried(self, header: SendHeader, request: RemotingCommand) -> str:
        """Where a message goes that a consumer sends to its group's retry topic: there, or to the dead letters
        once it was tried often enough."""
        if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
            )
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            raise _refused(unknown_group(name))
        asked = header.max_reconsume_times
        if header.reconsume_times < max_times(group, request.version, None if asked == NOT_SAID else asked):
            return header.topic
        topic = dead_letter_topic(self._topics, name)
        if isinstance(topic, Refusal):
            raise _refused(topic)
        return topic

    # -- messages that aren't stored as they are --------------------------------------------------------------

    def _batch(self, header: SendHeader, body: bytes) -> tuple[Collection[Entry], bytes, int, bool]:
        """As SentProperties.batch, of a batch that may be stored."""
        if header.sys_flag & layout.SYS_TRANSACTION_MASK:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch can't be transactional; single messages can")
        if _DELAY in header.properties:
            properties, _ = self._properties.read(header.properties)
            if int_field(properties, layout.PROPERTY_DELAY, 0) > 0:
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch can't be delayed; single messages can")
        entries, shared, size, wait = self._properties.batch(header.properties, body)
        if not entries:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        return entries, shared, size, wait

    def _parked(self, header: SendHeader, topic: str, queue_id: int) -> tuple[str, int, bytes, bool]:
        """Topic, queue and properties of what seems to be a half or a delayed message, and whether to wait."""
        properties, wait = self._properties.read(header.properties)
        delayed = int_field(properties, layout.PROPERTY_DELAY, 0) > 0
        if _is_half(header, properties, delayed):
            park(properties, topic, queue_id, header.producer_group)
            self._topics.ensure(layout.HALF_TOPIC, HALF_QUEUE + 1)
            return layout.HALF_TOPIC, HALF_QUEUE, _encoded(properties), wait
        if topic is not header.topic:  # dead letters aren't delayed
            properties[layout.PROPERTY_DELAY] = "0"
            return topic, queue_id, _encoded(properties), wait
        topic, queue_id = route_delayed(properties, topic, queue_id, self._store.delay_levels)
        if topic is header.topic:
            return topic, queue_id, *self._properties.stored(header.properties)
        return topic, queue_id, _encoded(properties), wait


def _is_half(header: SendHeader, properties: dict[str, str], delayed: bool) -> bool:
    """Does a producer send this prepared? Raises Refused for what only a broker writes."""
    state = header.sys_flag & layout.SYS_TRANSACTION_MASK
    if state not in (layout.SYS_TRANSACTION_NONE, layout.SYS_TRANSACTION_PREPARED):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a transactional message is sent prepared (sysFlag 4)")
    said = properties.get(layout.PROPERTY_TRANSACTION, "").lower() == "true"
    if not said and state == layout.SYS_TRANSACTION_NONE:
        return False
    return not (delayed and header.reconsume_times > 0)


def _encoded(properties: Mapping[str, str]) -> bytes:
    try:
        return encode_properties(properties)
    except ValueError as error:  # a half's producer group becomes one of them
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


def _header_of(request: RemotingCommand) -> SendHeader:
    if isinstance(request, SendCommand) and request.header is not None:
        return request.header
    if request.code == RequestCode.SEND_MESSAGE:
        return parse_send_v1(request.ext)
    return parse_send_v2(request.ext)
