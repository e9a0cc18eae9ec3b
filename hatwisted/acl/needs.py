"""What each request code asks of its sender's account.

One of three: to be an administrator (ADMIN_CODES), permissions for topics and groups (NEEDS), or to be an account
at all (ANY_ACCOUNT). Each code of the protocol is in one of them, or is of name servers and clients
(NOT_A_BROKERS); a test holds it to the table of docs/accounts.md.

RocketMQ 4.9.7 asks for permissions in 10, 11, 12, 15, 34, 35, 36, 38 and 310, and for an administrator in 17, 25,
200, 207 and 215. An account of its that may not publish to a topic still does so in batches, ends others'
transactions, and reads and changes everybody's secret keys. So more is asked here, where those who honestly make
the request have what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hatwisted.acl.permissions import GROUP, PUB, SUB
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand, SignedSendCommand
from hatwisted.wire.topics import RETRY_PREFIX


class Need(NamedTuple):
    """resource: a topic, or GROUP and a group's name. permission: PUB or SUB."""

    resource: str
    permission: int


ADMIN_CODES: Final = frozenset(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.READ_LOG,
        RequestCode.REPAIR_LOG,
        # of a name server: routes are believed by all clients
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    )
)
"""They change or delete what isn't one group's or one topic's, or read past all permissions."""

ANY_ACCOUNT: Final = frozenset(
    (
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.WATCH_TABLES,
        RequestCode.LOG_DIGESTS,
    )
)
"""They look, or carry the answer to a question. As in RocketMQ, 33 reads any message whose place is known."""

NOT_A_BROKERS: Final = frozenset(
    (
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.QUERY_DATA_VERSION,
    )
)
"""A broker answers that it doesn't support them; who asks needs an account even so."""


Rule = Callable[[RemotingCommand], Iterable[Need]]
"""What a request takes."""


def needs_of(request: RemotingCommand) -> Iterable[Need]:
    """The permissions that `request` takes, apart from being an administrator's. Raises FastjsonError for a body
    that can't be read."""
    rule = NEEDS.get(request.code)
    return () if rule is None else rule(request)


def _named(resource: str | None, permission: int) -> Iterator[Need]:
    if resource:
        yield Need(resource, permission)


def _group(name: str | None) -> Iterator[Need]:
    return _named(name and GROUP + name, SUB)


def _send(topic_field: str) -> Rule:
    """To a topic. To a retry topic: a consumer's client puts back itself what its broker can't take back, in the
    name of a producer that all of them have. So it's the topic's group that counts, not the one of the request,
    which a RocketMQ broker asks about: with any group of one's own one could write into all others'."""

    def needs(request: RemotingCommand) -> Iterable[Need]:
        typed = request.header if isinstance(request, SignedSendCommand) else None
        topic = request.ext.get(topic_field) if typed is None else typed.topic
        return publishing(topic)

    return needs


def publishing(topic: str | None) -> Iterable[Need]:
    """What a message takes that is to go to this topic."""
    return _named(topic, SUB if topic is not None and topic.startswith(RETRY_PREFIX) else PUB)


def _consume(topic_field: str, *group_fields: str) -> Callable[[RemotingCommand], Iterable[Need]]:
    """A group that consumes, and its topic. topic_field: "" if the request names none."""

    def needs(request: RemotingCommand) -> Iterator[Need]:
        yield from _named(request.ext.get(topic_field), SUB)
        for field in group_fields:
            yield from _group(request.ext.get(field))

    return needs


def _heartbeat(request: RemotingCommand) -> Iterator[Need]:
    for data in _dicts(_body(request).get("consumerDataSet")):
        yield from _group(_text(data.get("groupName")))
        for subscription in _dicts(data.get("subscriptionDataSet")):
            yield from _named(_text(subscription.get("topic")), SUB)


def _locks(request: RemotingCommand) -> Iterator[Need]:
    yield from _group(_text(_body(request).get("consumerGroup")))


def _progress(request: RemotingCommand) -> Iterator[Need]:
    """A slave's report of what groups have read, by rows of topic@group. Who may make one could otherwise move
    any group past what it hasn't read."""
    body = _body(request)
    for table in (body.get("offsetTable"), body.get("resetTable")):
        for row in table if isinstance(table, dict) else ():
            topic, _, group = row.partition("@")
            yield from _named(topic, SUB)
            yield from _group(group)


def _end_transaction(request: RemotingCommand) -> Iterable[Need]:
    """5.x names the topic. What the half message itself says counts as well: see the broker's `needs_of_end`."""
    return _named(request.ext.get("topic"), PUB)


def _body(request: RemotingCommand) -> Mapping[str, Any]:
    body = fastjson.loads_request(request.body) if request.body else {}
    return body if isinstance(body, dict) else {}


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


NEEDS: Final[Mapping[int, Rule]] = {
    RequestCode.SEND_MESSAGE: _send("topic"),
    RequestCode.SEND_MESSAGE_V2: _send("b"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _consume("", "group"),
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.PULL_MESSAGE: _consume("topic", "consumerGroup"),
    RequestCode.LITE_PULL_MESSAGE: _consume("topic", "consumerGroup"),
    RequestCode.QUERY_MESSAGE: _consume("topic"),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _consume("", "consumerGroup"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _consume("", "consumerGroup"),
    RequestCode.UPDATE_CONSUMER_OFFSET: _consume("topic", "consumerGroup"),
    RequestCode.JOIN_CONSUMER_OFFSET: _progress,
    RequestCode.LOCK_BATCH_MQ: _locks,
    RequestCode.UNLOCK_BATCH_MQ: _locks,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _consume("topic", "group"),
    RequestCode.CLONE_GROUP_OFFSET: _consume("topic", "destGroup"),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume("topic", "consumerGroup"),
}
"""Request code -> the permissions that one such request takes."""
