"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361), on master and slave.

The order of the checks, the codes and the remarks are RocketMQ 4.9.7's: clients act on the code, operators
read the remark, which names how reading the queue ended. Two deviations, both for a slave: a pull whose
offset the slave doesn't have (yet) isn't corrected but held, because the master may have it and 4.9.7's
answer makes a consumer that is ahead of its slave ask in a tight loop; and arrivals wake held pulls at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import msgspec
from twisted.logger import Logger

from hatwisted.broker.consumer.consumerprocessors import ConsumerProcessors, ConsumerTables
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.filter.consumerfilter import record_test
from hatwisted.broker.filter.subscriptiondata import Subscription, subscribe
from hatwisted.broker.pull.pullhold import HeldPull, PullHold, Queue
from hatwisted.broker.requests import Refusal
from hatwisted.broker.role import Role
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.errors import WrongEntry
from hatwisted.store.queue.reading import GetResult, GetStatus, Wanted
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import SQL92
from hatwisted.wire.registration import PERM_READ
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField, PullHeader, parse_pull
from hatwisted.wire.topics import RETRY_PREFIX

PULL_CODES = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)

MAX_COUNT = 32
"""Messages in one answer, whatever was asked for (maxTransferCountOnMessageInMemory)."""

MAX_BYTES = 256 * 1024
"""Bytes in one answer, but at least one message (maxTransferBytesOnMessageInMemory)."""

BEFORE_ALL = -1
"""An offset that no queue has: a read there tells the queue's bounds and touches no record."""

MAX_SENT_ON = 10_000
"""Queues of groups, for each connection, that a slave remembers having sent to its master."""

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}

ReadQueue = Callable[[str, int, int, int, int, Wanted], GetResult]
"""MessageStore.get_messages: topic, queue id, offset, messages, bytes, filter."""


CountGet = Callable[[str, str, int, int], None]
"""(group, topic, messages, bytes): called with what a group got of a topic, once for each answer."""


APART = "this slave was a master, and its log hasn't been found to be the present master's yet: pull from that one"


class PullOptions(msgspec.Struct, frozen=True, kw_only=True):
    """RocketMQ's keys as they stand in the configuration. slow_distance: bytes behind the log's end from
    which
    a reader is sent to a slave (40 % of the memory)."""

    role: Role
    broker_permission: int = 6
    slave_read_enable: bool = False
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    slow_distance: int = 1 << 62


class PullProcessor:
    """Answers pulls, at once or when something arrives.

    - read: see ReadQueue
    - tables, consumers: who may pull what, and how far they have come
    - hold: where pulls wait
    - options: those at present
    - count_get: see CountGet
    """

    _log = Logger()

    def __init__(
        self,
        read: ReadQueue,
        tables: ConsumerTables,
        consumers: ConsumerProcessors,
        hold: PullHold,
        options: Callable[[], PullOptions],
        count_get: CountGet,
    ) -> None:
        self._read = read
        self._topics = tables.topics
        self._groups = tables.groups
        self._clients = consumers.clients
        self._progress = consumers.progress
        self._filters = tables.filters
        self._hold = hold
        self._options = options
        self._count_get = count_get
        self._sent_on: WeakKeyDictionary[RemotingConnection, dict[tuple[str, Queue], int]] = (
            WeakKeyDictionary()
        )
        """On a slave: the offset that a client was last sent elsewhere for, by group and queue."""

    def register_on(self, table: ProcessorTable) -> None:
        for code in PULL_CODES:
            table.register(code, self.pull)

    def pull(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand | None:
        """The answer, or None while the pull is held."""
        try:
            header = parse_pull(request.ext)
        except BadRequestField as error:
            return response(request, ResponseCode.SYSTEM_ERROR, str(error))
        group = self._groups.find(header.consumer_group)
        wanted = self._admit(header, group)
        if isinstance(wanted, Refusal):
            return response(request, wanted.code, wanted.remark)
        offset = header.queue_offset
        standing = self._progress.stale.pulled(
            header.consumer_group, header.topic, header.queue_id, offset, connection
        )
        if standing is not None:
            return self._send_back(connection, request, header, standing)
        if (
            header.sys_flag & PullHeader.COMMIT_OFFSET
            and not self._options().role.slave
            and header.commit_offset >= 0
        ):
            self._progress.commit(
                connection, header.consumer_group, header.topic, header.queue_id, header.commit_offset
            )
        count = max(1, min(header.max_msg_nums, MAX_COUNT))
        size = min(header.max_msg_bytes, MAX_BYTES) if header.max_msg_bytes > 0 else MAX_BYTES
        queue = (header.topic, header.queue_id)
        carried = bool(header.sys_flag & PullHeader.SUBSCRIPTION)
        pull = HeldPull(
            connection, request, queue, header.queue_offset, count, size, wanted, self._retry, carried
        )
        try:
            result = self._look(pull)
        except WrongEntry as error:
            return _refusal(request, error)
        waits = self._worth_waiting(pull, result) and not self._sends_on(pull, header, result)
        if waits and self._held(pull, header):
            return None
        return self._answer(pull, result)

    def _send_back(
        self, connection: RemotingConnection, request: RemotingCommand, header: PullHeader, standing: int
    ) -> RemotingCommand:
        """To where the group stands: what it asks for are messages of before a loss (`staleoffsets`)."""
        queue = (header.topic, header.queue_id)
        found = self._read(*queue, BEFORE_ALL, 1, 1, None)
        sent_to = GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, standing, found.min_offset, found.max_offset)
        return self._answer(HeldPull(connection, request, queue, standing, 1, 1, None, self._retry), sent_to)

    def _retry(self, pull: HeldPull, final: bool) -> bool:
        """Look again for a held pull; see HeldPull."""
        try:
            result = self._look(pull)
            if not final and (self._worth_waiting(pull, result) or self._passed_over(pull, result)):
                return False
            answer = self._answer(pull, result, waited=True)
        except WrongEntry as error:
            answer = _refusal(pull.request, error)
        except Exception as error:
            self._log.failure("held pull of {peer} failed", peer=pull.connection.peer)
            answer = response(pull.request, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        pull.connection.reply(pull.request, answer)
        return True

    # ---- may it, and what does it want

    def _admit(self, header: PullHeader, group: GroupConfig | None) -> Wanted | Refusal:
        """The filter, or the first reason to refuse."""
        if not self._options().broker_permission & PERM_READ:
            return Refusal(ResponseCode.NO_PERMISSION, "the broker pulling message is forbidden")
        if self._options().role.apart:
            return Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, APART)
        name = header.consumer_group
        if group is None:
            return Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist"
            )
        if not group.consume_enable:
            return Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")
        return self._check_queue(header) or self._subscription(header, group)

    def _check_queue(self, header: PullHeader) -> Refusal | None:
        topic = self._topics.get(header.topic)
        if topic is None:
            return Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!"
            )
        if not topic.perm & PERM_READ:
            return Refusal(
                ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden"
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            return Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
            )
        return None

    def _subscription(self, header: PullHeader, group: GroupConfig) -> Wanted | Refusal:
        """The filter of the subscription in the request, or of the one in its group's heartbeats."""
        if header.sys_flag & PullHeader.SUBSCRIPTION:
            return self._carried_filter(header)
        members = self._clients.consumers.get(header.consumer_group)
        if members is None:
            return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if members.broadcasting and not group.consume_broadcast_enable:
            remark = f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
            return Refusal(ResponseCode.NO_PERMISSION, remark)
        known = members.subscriptions.get(header.topic)
        if known is None:
            return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if known.version < header.sub_version:
            return Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return self._tag_filter(header, known) if known.by_tag else self._known_filter(header)

    def _carried_filter(self, header: PullHeader) -> Wanted | Refusal:
        carried = subscribe(header.topic, header.subscription, header.expression_type, header.sub_version)
        if carried.by_tag:
            return self._tag_filter(header, carried)
        if not header.subscription:
            return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
        if not self._filters.enabled:
            return _unsupported(carried.expression_type)
        return self._filters.carried_test(header.consumer_group, carried)

    def _known_filter(self, header: PullHeader) -> Wanted | Refusal:
        """In 4.9.7's order: a filter that isn't there comes before filtering that isn't allowed."""
        known = self._filters.find(header.topic, header.consumer_group)
        if known is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            return Refusal(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if known.version < header.sub_version:
            remark = "the consumer's consumer filter data not latest"
            return Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
        return record_test(known.compiled) if self._filters.enabled else _unsupported(SQL92)

    def _tag_filter(self, header: PullHeader, wanted: Subscription) -> Wanted:
        retry = self._filters.support_retry and header.topic.startswith(RETRY_PREFIX)
        if retry and wanted.tags_codes is None:
            return self._filters.retry_test(header.consumer_group)
        return wanted.tags_codes

    # ---- read, wait, answer

    def _look(self, pull: HeldPull) -> GetResult:
        topic, queue_id = pull.queue
        return self._read(topic, queue_id, pull.offset, pull.max_count, pull.max_bytes, pull.wanted)

    def _worth_waiting(self, pull: HeldPull, result: GetResult) -> bool:
        """Is there nothing yet where the pull looks? On a slave also where it has nothing at all."""
        code = _code(result, pull.offset)
        return code == ResponseCode.PULL_NOT_FOUND or (
            self._options().role.slave and code == ResponseCode.PULL_OFFSET_MOVED
        )

    def _sends_on(self, pull: HeldPull, header: PullHeader, result: GetResult) -> bool:
        """Is a slave asked for what it hasn't got, and the consumer doesn't know yet? It's answered at once:
        its master may have sent it here, and has what this slave lacks. Who comes back with the same has
        nowhere to go."""
        if _code(result, pull.offset) != ResponseCode.PULL_OFFSET_MOVED:
            return False
        offsets = self._sent_on.setdefault(pull.connection, {})
        key = (header.consumer_group, pull.queue)
        knows = offsets.get(key) == pull.offset
        if len(offsets) >= MAX_SENT_ON:
            offsets.clear()
        offsets[key] = pull.offset
        return not knows

    def _passed_over(self, pull: HeldPull, result: GetResult) -> bool:
        """Were all new messages for others? Then the pull waits on after them."""
        if result.status is not GetStatus.NO_MATCHED_MESSAGE:
            return False
        pull.offset = result.next_begin_offset
        return pull.offset >= result.max_offset

    def _held(self, pull: HeldPull, header: PullHeader) -> bool:
        if not header.sys_flag & PullHeader.SUSPEND:
            return False
        millis = header.suspend_timeout_millis
        if not self._options().long_polling_enable:
            millis = self._options().short_polling_time_mills
        if millis <= 0:
            return False
        pull.request = _kept(pull.request, header.consumer_group)
        return self._hold.hold(pull, millis / 1000)

    def _answer(self, pull: HeldPull, result: GetResult, waited: bool = False) -> RemotingCommand:
        code, next_offset = _code(result, pull.offset), result.next_begin_offset
        if self._options().role.slave and code == ResponseCode.PULL_OFFSET_MOVED:
            code = ResponseCode.PULL_NOT_FOUND if waited else ResponseCode.PULL_RETRY_IMMEDIATELY
            next_offset = pull.offset
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._log.info(
                "pull by {peer} of {queue} at {offset}, which is outside {low}..{high}: sent to {next}",
                peer=pull.connection.peer,
                queue=pull.queue,
                offset=pull.offset,
                low=result.min_offset,
                high=result.max_offset,
                next=next_offset,
            )
        ext = {
            "suggestWhichBrokerId": self._suggestion(pull, result),
            "nextBeginOffset": str(next_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
        }
        buffers = result.buffers
        body = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        if body:
            self._count_get(pull.request.ext["consumerGroup"], pull.queue[0], result.count, len(body))
        return response(pull.request, code, result.status.name, ext, body)

    def _suggestion(self, pull: HeldPull, result: GetResult) -> str:
        """Id of the broker to pull from next: the master, unless slaves may be read and this reader is so far
        behind that its messages have to come from the disk (B119)."""
        if not self._options().slave_read_enable:
            return "0"
        name = pull.request.ext["consumerGroup"]
        group = self._groups.find(name) or GroupConfig(group_name=name)
        slow = result.behind_bytes > self._options().slow_distance
        return str(group.which_broker_when_consume_slowly if slow else group.broker_id)


def _kept(request: RemotingCommand, group: str) -> RemotingCommand:
    """Of a request what its answer needs: it may have come with 16 MiB of body and fields."""
    kept = {"consumerGroup": group}
    return RemotingCommand(request.code, request.opaque, request.flag, ext=kept, binary=request.binary)


def _refusal(request: RemotingCommand, error: WrongEntry) -> RemotingCommand:
    """The group waits here: passing the message over would lose it for good."""
    return response(request, ResponseCode.SYSTEM_ERROR, str(error))


def _unsupported(kind: str) -> Refusal:
    remark = (
        f"The broker does not support consumer to filter message by {kind}: set enablePropertyFilter=true"
    )
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def _code(result: GetResult, offset: int) -> int:
    """An empty queue asked at its beginning isn't out of range, there just is nothing yet."""
    empty = result.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
    return ResponseCode.PULL_NOT_FOUND if empty and offset == 0 else _CODES[result.status]
