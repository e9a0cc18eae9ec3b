"""Where topics live: all name servers together.

Brokers register with each name server by themselves, so name servers know the same except while one has just
been started or is cut off from a broker. To take the first that answers would then silently miss queues, and a
read that misses queues passes for a whole one. So every name server that answers is asked, and what they know
is put together; one that is dead costs its connect timeout once in DEAD_FOR seconds and doesn't matter
otherwise. Where two of them contradict each other about an address, the earlier in the list is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hatwisted.pipeline.remote.errors import BadAnswer, BadSetting, BrokerGone, NoRoute
from hatwisted.pipeline.remote.links import Links, command, succeeded
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import (
    PERM_READ,
    BadRegistration,
    QueueData,
    TopicRoute,
    decode_body,
)
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS

Replicas = dict[int, str]
"""The brokers of one name: id -> "host:port"."""


class Routes:
    """What the name servers say; nothing is remembered here. retries: rounds over all name servers after the
    first one, those of the settings if None."""

    def __init__(self, links: Links, retries: int | None = None) -> None:
        self._links = links
        self._retries = links.settings.retries if retries is None else retries

    def topics(self) -> list[str]:
        """All topics, sorted."""
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return sorted(self._names(code, required=True))

    def matching(self, pattern: str) -> list[str]:
        """Topics whose whole name matches the regular expression. Those of the brokers are left out, and those
        of consumer groups unless the pattern has a `%`. BadSetting if it's no regular expression."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BadSetting(f"pattern of topics {pattern!r} is no regular expression: {error}") from None
        # The system list of a name server has the names of clusters and brokers, which are topics as well.
        system = SYSTEM_TOPICS | self._names(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, required=False)
        return [
            topic
            for topic in self.topics()
            if wanted.fullmatch(topic)
            and topic not in system
            and not topic.startswith(SYSTEM_PREFIX)
            and not topic.endswith(REPLY_SUFFIX)
            and ("%" in pattern or not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        ]

    def route(self, topic: str) -> TopicRoute | None:
        """Where `topic` lives; None if no name server knows it."""
        what = f"the route of topic {topic}"
        request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly=True)
        known = []
        for address, answer in self._ask_all(request):
            if answer.code != ResponseCode.TOPIC_NOT_EXIST:
                known.append(_decode_route(address, succeeded(address, answer, what)))
        return _together(known) if known else None

    def _names(self, code: int, *, required: bool) -> frozenset[str]:
        found: set[str] = set()
        for address, answer in self._ask_all(command(code)):
            if not required and answer.code != ResponseCode.SUCCESS:
                continue
            body = succeeded(address, answer, "the list of topics").body
            try:
                found.update(str(topic) for topic in fastjson.loads(body).get("topicList") or ())
            except (ValueError, AttributeError):
                raise BadAnswer(f"{address}: its list of topics can't be read") from None
        return frozenset(found)

    def _ask_all(self, request: RemotingCommand) -> list[tuple[str, RemotingCommand]]:
        """(address, answer) of each name server that answers: at least one, or BrokerGone after all retries."""
        links = self._links
        told: list[str] = []
        for tried in range(self._retries + 1):
            if tried:
                links.pause(tried - 1)
            told = []
            servers = links.settings.name_servers
            alive = [each for each in servers if not links.is_dead(each)]
            answers = self._ask(alive, request, told) or self._ask(
                [each for each in servers if each not in alive], request, told
            )
            if answers:
                return answers
        raise BrokerGone(
            f"no name server answers: {'; '.join(told)}: is the address right, and is one running?"
        )

    def _ask(
        self, servers: Sequence[str], request: RemotingCommand, told: list[str]
    ) -> list[tuple[str, RemotingCommand]]:
        answers = []
        for address in servers:
            try:
                answers.append((address, self._links.call(address, request)))
            except (BrokerGone, BadAnswer) as error:
                told.append(str(error))
        return answers


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """All queues of `topic` that may be read, by broker and number; raises NoRoute if there's none."""
    queues = [
        MessageQueue(broker_name=data.broker_name, queue_id=number, topic=topic)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & PERM_READ
        for number in range(data.read_queue_nums)
    ]
    if not queues:
        raise NoRoute(f"topic {topic}: none of its queues may be read: see its permission (updateTopicPerm)")
    return queues


def replicas_of(route: TopicRoute, broker_name: str) -> Replicas:
    """The brokers of one name in a route; none, if none is alive."""
    for group in route.broker_datas:
        if group.broker_name == broker_name:
            return dict(sorted(group.broker_addrs.items()))
    return {}


def _decode_route(address: str, answer: RemotingCommand) -> TopicRoute:
    try:
        return decode_body(answer.body, TopicRoute)
    except BadRegistration as error:
        raise BadAnswer(f"{address}: {error}") from None


def _together(routes: Iterable[TopicRoute]) -> TopicRoute:
    """All brokers and queues that any of `routes` has."""
    result, *others = routes
    for other in others:
        known = {group.broker_name: group for group in result.broker_datas}
        for group in other.broker_datas:
            if group.broker_name in known:
                mine = known[group.broker_name]
                mine.broker_addrs = group.broker_addrs | mine.broker_addrs
            else:
                result.broker_datas.append(group)
        result.queue_datas = _more_queues([*result.queue_datas, *other.queue_datas])
    return result


def _more_queues(entries: Iterable[QueueData]) -> list[QueueData]:
    """One entry a broker: the one with most queues to read (a topic's queues may just have been added)."""
    chosen: dict[str, QueueData] = {}
    for data in entries:
        mine = chosen.get(data.broker_name)
        if mine is None or data.read_queue_nums > mine.read_queue_nums:
            chosen[data.broker_name] = data
    return list(chosen.values())
