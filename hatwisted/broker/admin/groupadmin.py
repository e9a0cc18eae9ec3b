"""What operators do with consumer groups: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200, DELETE_SUBSCRIPTIONGROUP
207. (201, all groups, is in `admin`.) A slave's table is its master's, so it refuses both; a master answers
when its slaves have the change, or have had their time to copy it, and names those that lack it."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from hatwisted.broker.admin.brokerstats import BrokerStats
from hatwisted.broker.admin.topicadmin import NOT_ON_A_SLAVE
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.subscriptiongroup import MAX_GROUP_LENGTH, GroupConfig, SubscriptionGroupTable
from hatwisted.broker.requests import BadClientData, answer_bad_requests
from hatwisted.broker.role import Role
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import MAX_QUEUE_IDS, BadRegistration, decode_request
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import bool_field, text_field

_INT_MAX = (1 << 31) - 1


class GroupAdmin:
    """Answers that change the table of groups.

    - groups: the table
    - offsets: those of a deleted group go
    - stats: likewise
    - role: a slave leaves it to its master
    - confirmed: as in TableSpread
    """

    def __init__(
        self,
        groups: SubscriptionGroupTable,
        offsets: ConsumerOffsetTable,
        stats: BrokerStats,
        role: Role,
        confirmed: Callable[[], Deferred[str | None]],
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._stats = stats
        self._role = role
        self._confirmed = confirmed

    def register_on(self, table: ProcessorTable) -> None:
        """Put both handlers into `table`."""
        update, delete = answer_bad_requests(self.update), answer_bad_requests(self.delete)
        table.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, update)
        table.register(RequestCode.DELETE_SUBSCRIPTIONGROUP, delete)

    def update(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        if self._role.slave:
            return response(request, ResponseCode.SYSTEM_ERROR, NOT_ON_A_SLAVE)
        config = _parse(request.body)
        self._groups.put(config)
        return self._confirmed().addCallback(lambda remark: response(request, remark=remark))

    def delete(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        """The group's settings and, if asked for, its progress. 4.x and 5.x ask for that by different
        names."""
        if self._role.slave:
            return response(request, ResponseCode.SYSTEM_ERROR, NOT_ON_A_SLAVE)
        name = text_field(request.ext, "groupName")
        self._groups.delete(name)
        if bool_field(request.ext, "removeOffset") or bool_field(request.ext, "cleanOffset"):
            self._offsets.remove_group(name)
        self._stats.forget_group(name)
        return self._confirmed().addCallback(lambda remark: response(request, remark=remark))


def _parse(body: bytes) -> GroupConfig:
    try:
        config = decode_request(body, GroupConfig)
    except BadRegistration as error:
        raise BadClientData(f"the body is {error}") from None
    if not config.group_name.strip():
        raise BadClientData("groupName is blank")
    if len(config.group_name) > MAX_GROUP_LENGTH:
        raise BadClientData(f"groupName is longer than {MAX_GROUP_LENGTH} characters")
    _check("retryQueueNums", config.retry_queue_nums, 0, MAX_QUEUE_IDS)
    _check("retryMaxTimes", config.retry_max_times, -_INT_MAX, _INT_MAX)
    _check("brokerId", config.broker_id, 0, _INT_MAX)
    _check("whichBrokerWhenConsumeSlowly", config.which_broker_when_consume_slowly, 0, _INT_MAX)
    return config


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise BadClientData(f"{name} has the value {value}, allowed are {low} to {high}")
