"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

All sends of one read are turned into puts, appended in one go and settled together; the answers that become
ready together leave in one write. What is checked here is the producer's mistake (topic, queue, properties);
what the log and the gate refuse is ours, and told with other codes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial

from hatwisted.broker.detour import (
    DLQ_QUEUES,
    dead_letter_topic,
    max_times,
    postpone,
    unknown_group,
    without_delay,
)
from hatwisted.broker.groups import SubscriptionGroupTable
from hatwisted.broker.halfmessages import HALF_QUEUE, park
from hatwisted.broker.putgate import PutGate
from hatwisted.broker.topics import RETRY_PREFIX, Refusal, TopicConfigTable
from hatwisted.remoting.server import RemotingConnection, response
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.put import STORED, Entry, Put, PutStatus
from hatwisted.wire import layout
from hatwisted.wire.batch import BATCH_ENTRY_FIXED, CorruptBatch, decode_batch
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.remoting import RemotingCommand, SendCommand, encode_send_response
from hatwisted.wire.requestheader import NOT_SAID, BadRequestField, SendHeader, parse_send_v1, parse_send_v2

SEND_CODES = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)

_CODES: dict[PutStatus, int] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
}

_UNIT = 1
"""topicSysFlag of a topic made for a producer in unit mode."""

_END = "\x02"
_WAIT = layout.PROPERTY_WAIT + "\x01"
_USUAL_WAIT = f"{_END}{_WAIT}true{_END}"
"""How Java producers say that they want to wait, between two other properties."""
_MAY_END = frozenset((b"", b"\x02"))
"""Last byte of properties that others may be put behind."""

_DELAY = layout.PROPERTY_DELAY + "\x01"
_UNIQ_KEY = layout.PROPERTY_UNIQ_KEY + "\x01"


class _Refused(Exception):
    """A send that isn't even tried: response code and remark for the producer."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code


def _refused(refusal: Refusal) -> _Refused:
    return _Refused(refusal.code, refusal.remark)


class SendProcessor:
    """Answers sends on a master.

    store: where puts go; gate: settles them; topics: who may be sent to; cluster: brokerClusterName, which
    every stored message carries; store_host: 8 or 20 bytes, part of every message id; groups: how often those
    behind the retry topics try.
    """

    def __init__(
        self,
        store: MessageStore,
        gate: PutGate,
        topics: TopicConfigTable,
        cluster: str,
        store_host: bytes,
        groups: SubscriptionGroupTable,
    ) -> None:
        self._store = store
        self._gate = gate
        self._topics = topics
        self._cluster = f"{layout.PROPERTY_CLUSTER}\x01{cluster}"
        self._host_hex = store_host.hex().upper()
        self._groups = groups
        self._detoured: list[tuple[Put, int]] = []
        """Puts of the read under way that are stored elsewhere, and the queue that was asked for."""
        self.draining = False
        """True once the broker is stopping: no new puts."""

    def process(self, connection: RemotingConnection, requests: Sequence[RemotingCommand]) -> None:
        """Append and settle all sends of one read."""
        puts: list[Put] = []
        known: dict[str, int] = {}
        refusal = self._refusal()
        no_waiting = self._gate.refusal()
        for request in requests:
            try:
                if refusal is not None:
                    raise refusal
                put = self._put(connection, request, known)
                if no_waiting is not None and put.wait:
                    raise _Refused(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]{no_waiting}")
                puts.append(put)
            except _Refused as refused:
                connection.reply(request, response(request, refused.code, str(refused)))
            except BadRequestField as bad:
                connection.reply(request, response(request, ResponseCode.SYSTEM_ERROR, str(bad)))
            except CorruptBatch as bad:
                connection.reply(request, response(request, ResponseCode.MESSAGE_ILLEGAL, str(bad)))
        if puts:
            self._store.append(puts)
            if self._detoured:
                self._show_asked_queues()
            if self._gate.may_wait:
                _lighten(puts)
            self._gate.settle(puts, partial(self._answer, connection))

    def _show_asked_queues(self) -> None:
        """Producers are answered with the queue they asked for, wherever the message lies until it's due."""
        for put, asked_id in self._detoured:
            put.queue_id = asked_id
        self._detoured.clear()

    def _refusal(self) -> _Refused | None:
        if self.draining:
            return _Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is shutting down")
        reason = self._store.refusal()
        if reason is not None:
            return _Refused(ResponseCode.SERVICE_NOT_AVAILABLE, reason)
        return None

    # -- request to put --------------------------------------------------------------------------------------

    def _put(self, connection: RemotingConnection, request: RemotingCommand, known: dict[str, int]) -> Put:
        """known: number of queues of the topics that this read's sends may go to."""
        header = _header_of(request)
        topic, queue_id = header.topic, header.queue_id
        if not 0 <= queue_id < known.get(topic, 0):
            queue_id = self._queue(header, known)
            if topic.startswith(RETRY_PREFIX):
                topic = self._retried(header, request.version)
        asked_id = queue_id
        if topic is not header.topic:
            queue_id %= DLQ_QUEUES
        batch = header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE
        entries: Sequence[Entry]
        sys_flag = header.sys_flag & ~layout.SYS_BORN_HOST_V6
        if sys_flag & layout.SYS_TRANSACTION_MASK:
            topic, queue_id, properties, wait = self._half(header, topic, queue_id, batch)
            sys_flag &= ~layout.SYS_TRANSACTION_MASK
            entries, shared, size = ((header.flag, request.body, properties),), b"", -1
        elif batch:
            entries, shared, size, wait = self._batch_entries(header, request.body)
        else:
            if _DELAY not in header.properties:
                properties, wait = self._properties(header.properties)
            else:
                topic, queue_id, properties, wait = self._delayed(header, topic, queue_id)
            entries = ((header.flag, request.body, properties),)
            shared = b""
            size = len(request.body) + len(properties)
        if len(connection.host_bytes) == 20:
            sys_flag |= layout.SYS_BORN_HOST_V6
        put = Put(
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
        )
        if topic is not header.topic:
            self._detoured.append((put, asked_id))
        return put

    def _queue(self, header: SendHeader, known: dict[str, int]) -> int:
        """The queue to append to, once topic and queue are found allowed; notes the topic in `known`."""
        topic = self._topics.for_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            _UNIT if header.unit_mode else 0,
        )
        if isinstance(topic, Refusal):
            raise _refused(topic)
        count = max(topic.write_queue_nums, topic.read_queue_nums)
        if not header.topic.startswith(RETRY_PREFIX):
            known[header.topic] = count  # a retry topic has more rules, for each message
        queue_id = header.queue_id
        if queue_id >= count or queue_id < -1:
            raise _Refused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId {queue_id} of topic {header.topic} is illegal, it has {topic.write_queue_nums} queues",
            )
        if queue_id == -1:
            self._round_robin += 1
            return self._round_robin % max(topic.write_queue_nums, 1)
        return queue_id

    _round_robin = 0

    def _retried(self, header: SendHeader, version: int) -> str:
        """Where a message goes that a consumer sends to its group's retry topic: there, or to the dead letters
        once it was tried often enough."""
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            raise _refused(unknown_group(name))
        asked = header.max_reconsume_times
        if header.reconsume_times < max_times(group, version, None if asked == NOT_SAID else asked):
            return header.topic
        topic = dead_letter_topic(self._topics, name)
        if isinstance(topic, Refusal):
            raise _refused(topic)
        return topic

    def _delayed(self, header: SendHeader, topic: str, queue_id: int) -> tuple[str, int, bytes, bool]:
        """Topic, queue and properties of a message with a DELAY (it keeps its WAIT, as in 4.9.7), and whether
        to wait. Dead letters aren't delayed."""
        properties = decode_properties(header.properties.encode())
        wait = properties.get(layout.PROPERTY_WAIT, "true").lower() == "true"
        name, _, cluster = self._cluster.partition("\x01")
        properties[name] = cluster
        if topic is not header.topic:
            properties = without_delay(properties)
        elif layout.PROPERTY_DELAY in properties:
            topic, queue_id = postpone(properties, topic, queue_id, self._store.delay_levels)
        if topic is header.topic:
            return topic, queue_id, *self._properties(header.properties)
        return topic, queue_id, encode_properties(properties), wait

    def _half(
        self, header: SendHeader, topic: str, queue_id: int, batch: bool
    ) -> tuple[str, int, bytes, bool]:
        """Topic, queue and properties under which a half message is parked, and whether to wait."""
        if batch or header.sys_flag & layout.SYS_TRANSACTION_MASK != layout.SYS_TRANSACTION_PREPARED:
            raise _Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                "a transactional message is sent prepared (sysFlag 4) and by itself, not in a batch",
            )
        properties = decode_properties(header.properties.encode())
        wait = properties.get(layout.PROPERTY_WAIT, "true").lower() == "true"
        name, _, cluster = self._cluster.partition("\x01")
        properties[name] = cluster
        park(properties, topic, queue_id, header.producer_group)
        self._topics.ensure(layout.HALF_TOPIC, HALF_QUEUE + 1)
        return layout.HALF_TOPIC, HALF_QUEUE, encode_properties(properties), wait

    def _properties(self, text: str) -> tuple[bytes, bool]:
        """Properties as a 4.9.7 broker stores them (WAIT taken out, CLUSTER added), and whether to wait."""
        before, found, after = text.partition(_USUAL_WAIT)
        if found and after:
            return f"{before}\x02{after}{'' if after[-1] == _END else _END}{self._cluster}".encode(), True
        wait = True
        at = text.find(_WAIT)
        if at == 0 or (at > 0 and text[at - 1] == "\x02"):
            stop = text.find("\x02", at)
            stop = len(text) if stop < 0 else stop
            wait = text[at + len(_WAIT) : stop].lower() == "true"
            text = text[:at] + text[stop + 1 :]
        if text and text[-1] != "\x02":
            text += "\x02"
        return (text + self._cluster).encode(), wait

    def _batch_entries(self, header: SendHeader, body: bytes) -> tuple[list[Entry], bytes, int, bool]:
        """Members of a batch, the properties put behind each one's own (the request's, but not a batch-level
        UNIQ_KEY, which would give every member the same id), bytes of content in all, and whether to wait."""
        shared = [pair for pair in header.properties.split("\x02") if pair and not pair.startswith(_UNIQ_KEY)]
        if any(pair.startswith(_DELAY) for pair in shared):
            raise _Refused(
                ResponseCode.MESSAGE_ILLEGAL, "a batch can't be delayed, its messages one by one can"
            )
        wait = all(pair[len(_WAIT) :].lower() == "true" for pair in shared if pair.startswith(_WAIT))
        suffix = "\x02".join([*shared, self._cluster]).encode()
        entries = decode_batch(body)
        if not entries:
            raise _Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        size = len(body) + len(entries) * (len(suffix) - BATCH_ENTRY_FIXED)
        last_bytes = {own[-1:] for _, _, own in entries}
        if last_bytes.isdisjoint(_MAY_END):
            suffix = b"\x02" + suffix  # 4.9.1 to 5.1 clients leave the last separator out
            size += len(entries)
        elif not last_bytes <= _MAY_END:
            entries = [
                (flag, member, own if own[-1:] in _MAY_END else own + b"\x02")
                for flag, member, own in entries
            ]
            size = -1  # the encoder counts it
        return entries, suffix, size, wait

    # -- put to answer ---------------------------------------------------------------------------------------

    def _answer(self, connection: RemotingConnection, puts: Sequence[Put]) -> None:
        answers: list[bytes] = []
        self._store.stats.count_puts(puts)
        for put in puts:
            request = put.token
            status = put.status
            assert isinstance(request, RemotingCommand) and status is not None
            if request.flag & 2:
                continue
            if status is PutStatus.PUT_OK:
                answers.append(
                    encode_send_response(
                        request.opaque, put.queue_id, put.queue_offset, self._ids(put), request.binary
                    )
                )
                continue
            code = _CODES.get(status, ResponseCode.SYSTEM_ERROR)
            if status in STORED:
                answers.append(
                    encode_send_response(
                        request.opaque,
                        put.queue_id,
                        put.queue_offset,
                        self._ids(put),
                        request.binary,
                        int(code),
                        status.value,
                    )
                )
            else:
                connection.reply(request, response(request, code, put.reason or status.value))
        if answers:
            connection.send(b"".join(answers))

    def _ids(self, put: Put) -> str:
        """Offset message id; a batch answers those of all its messages."""
        if len(put.record_offsets) == 1:
            return f"{self._host_hex}{put.offset:016X}"
        host, offsets = self._host_hex, put.record_offsets
        digits = struct.pack(f">{len(offsets)}q", *offsets).hex().upper()
        return host + f",{host}".join([digits[at : at + 16] for at in range(0, len(digits), 16)])


_NO_FIELDS: dict[str, str] = {}


def _lighten(puts: Sequence[Put]) -> None:
    """Let go of what only the append needed: a put may wait for seconds, among a hundred thousand others."""
    for put in puts:
        put.entries = ()
        request = put.token
        assert isinstance(request, RemotingCommand)
        request.body = b""
        request.ext = _NO_FIELDS


def _header_of(request: RemotingCommand) -> SendHeader:
    if isinstance(request, SendCommand) and request.header is not None:
        return request.header
    if request.code == RequestCode.SEND_MESSAGE:
        return parse_send_v1(request.ext)
    return parse_send_v2(request.ext)


def refuse_on_slave(connection: RemotingConnection, requests: Sequence[RemotingCommand]) -> None:
    """Sends to a slave: refused, nothing appended (B10)."""
    for request in requests:
        connection.reply(
            request,
            response(
                request,
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "this broker is a slave and takes no messages; send to the master of its group",
            ),
        )
