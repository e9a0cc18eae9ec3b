"""Where topics live, by what all name servers know together.

Brokers register with each name server separately, so name servers know the same, except while one has just
been started or is cut off from a broker. Taking the first answer would then silently miss queues, and a
read that misses queues looks like a complete one. So every name server that answers is asked, and their answers
are merged; one that is down costs its connect timeout once in DEAD_FOR seconds and does no other
harm. Where two of them disagree about an address, the one earlier in the list is believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import succeeded
from hatwisted.clientcore.answers import TopicList, decoded, decoded_route
from hatwisted.clientcore.command import command
from hatwisted.clientcore.errors import BadAnswer, BadSetting, BrokerGone, NoNameServer, NoRoute
from hatwisted.clientcore.rounds import Rounds
from hatwisted.clientcore.routes import merged, readable_queues
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import ClusterInfo, TopicRoute
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS


class Routes:
    """What the name servers say; nothing is cached. retries: rounds over all name servers after the
    first one, those of the settings if None."""

    def __init__(self, driver: BlockingDriver, retries: int | None = None) -> None:
        self._driver = driver
        self._retries = driver.settings.retries if retries is None else retries

    def topics(self) -> list[str]:
        """All topics, sorted."""
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return sorted(self._names(code, required=True))

    def matching(self, pattern: str) -> list[str]:
        """Topics whose whole name matches the regular expression. Those of the brokers are left out, and those
        of consumer groups unless the pattern has a `%`. BadSetting if it isn't a regular expression."""
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BadSetting(f"pattern of topics {pattern!r} is not a regular expression: {error}") from None
        # A name server's list of system topics includes the names of clusters and brokers, which are topics
        # as well.
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
        fields = {"topic": topic, "acceptStandardJsonOnly": True}
        request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        known = []
        for address, answer in self._ask_all(request):
            if answer.code != ResponseCode.TOPIC_NOT_EXIST:
                known.append(decoded_route(address, succeeded(address, answer, what)))
        return merged(known) if known else None

    def broker_names(self) -> frozenset[str]:
        """Of all groups of which a broker is alive. NoNameServer, or Refused if the account may not ask."""
        found: set[str] = set()
        for address, answer in self._ask_all(command(RequestCode.GET_BROKER_CLUSTER_INFO)):
            listed = decoded(address, succeeded(address, answer, "the list of brokers"), ClusterInfo)
            found.update(name for name, data in listed.broker_addr_table.items() if data.broker_addrs)
        return frozenset(found)

    def _names(self, code: int, *, required: bool) -> frozenset[str]:
        found: set[str] = set()
        for address, answer in self._ask_all(command(code)):
            if not required and answer.code != ResponseCode.SUCCESS:
                continue
            listed = decoded(address, succeeded(address, answer, "the list of topics"), TopicList)
            found.update(listed.topic_list or ())
        return frozenset(found)

    def _ask_all(self, request: RemotingCommand) -> list[tuple[str, RemotingCommand]]:
        """(address, answer) of each name server that answers: at least one, or NoNameServer after all retries."""
        driver, rounds = self._driver, Rounds(self._retries)
        while True:
            servers = driver.settings.name_servers
            alive = [each for each in servers if not driver.is_dead(each)]
            answers = self._ask(alive, request, rounds) or self._ask(
                [each for each in servers if each not in alive], request, rounds
            )
            if answers:
                return answers
            pause = rounds.pause()
            if pause is None:
                errors = "; ".join(map(str, rounds.failures.values()))
                raise NoNameServer(
                    f"no name server answered: {errors}: is the address right, and is one running?"
                )
            driver.pause(pause)

    def _ask(
        self, servers: Sequence[str], request: RemotingCommand, rounds: Rounds
    ) -> list[tuple[str, RemotingCommand]]:
        answers = []
        for address in servers:
            try:
                answers.append((address, self._driver.ask(address, request)))
            except (BrokerGone, BadAnswer) as error:
                rounds.failed(address, error)
        return answers


def queues_to_read(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """All queues of `topic` that may be read, by broker and number. NoRoute if there's none."""
    queues = readable_queues(topic, route)
    if not queues:
        raise NoRoute(topic, "none of its queues may be read: see its permission (updateTopicPerm)")
    return queues
