"""Where topics live, according to the name servers: one copy for all producers and consumers of a program.

What is known is used at once and asked again every 30 s; whoever finds it wrong has it asked again at the next
use. That no name server knows a topic any more changes nothing: a name server that has just started says so
of all of them, and the brokers go on serving (B114). A name server that doesn't answer is skipped for the
next in the list, and the one that answered last is asked first, so a dead one costs its timeout once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hatwisted.clientcore.address import parse_address
from hatwisted.clientcore.answers import decoded_route
from hatwisted.clientcore.driver import Driver
from hatwisted.clientcore.errors import BadAnswer, BadSetting, CallFailed, NoNameServer, Refused
from hatwisted.clientcore.tasks import Task, Waiter
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    QueueData,
    TopicRoute,
)
from hatwisted.wire.remoting import RemotingCommand

CALL_TIMEOUT: Final = 3.0
"""Seconds for a name server's answer (4.9.7: 3 s)."""
UNREACHABLE_PAUSE: Final = 5.0
"""Seconds that a broker which couldn't be reached, and hasn't answered since, is the last choice for reading."""


class Routes:
    """name_servers: "host:port" each, at least one."""

    def __init__(self, driver: Driver, name_servers: Sequence[str]) -> None:
        if not name_servers:
            raise BadSetting("no name server given: give host:port, several separated by ;")
        for address in name_servers:
            parse_address(address)
        self._driver = driver
        self._servers = list(name_servers)
        self._routes: dict[str, TopicRoute] = {}
        self._asking: dict[str, list[Waiter[TopicRoute | None]]] = {}
        self._unreachable: dict[str, float] = {}
        self.version = 0
        """Rises with each change of what is known."""

    # ---- asking

    @property
    def servers(self) -> list[str]:
        """The name servers, the one to be asked next first."""
        return list(self._servers)

    async def ask(self, request: RemotingCommand) -> tuple[str, RemotingCommand]:
        """(address, answer) of the first name server that answers. Raises NoNameServer."""
        errors = []
        for address in list(self._servers):
            try:
                answer = await self._driver.call(address, request, CALL_TIMEOUT)
            except CallFailed as error:
                errors.append(str(error))
                if self._servers[0] == address:
                    self._servers.append(self._servers.pop(0))
                continue
            return address, answer
        raise NoNameServer("no name server answered: " + "; ".join(errors))

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoute | None:
        """Where `topic` lives, None if no name server knows it. fresh: don't use what is remembered; what was
        known stays known to others."""
        known = self._routes.get(topic)
        if known is not None and not fresh:
            return known
        mine: Waiter[TopicRoute | None] = Waiter()
        waiting = self._asking.setdefault(topic, [])
        waiting.append(mine)
        if len(waiting) == 1:
            # Everybody waits in line, who came first too: sends of one topic go on in the order they came.
            Task(self._fetch(topic)).when_done(lambda fetched: self._fetched(fetched, topic))
        return await mine

    def _fetched(self, fetched: Waiter[TopicRoute | None], topic: str) -> None:
        waiting = self._asking.pop(topic)
        try:
            route = fetched.result()
        except Exception as error:
            for each in waiting:
                each.fail(error)
        else:
            for each in waiting:
                each.fire(route)

    async def _fetch(self, topic: str) -> TopicRoute | None:
        request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        address, answer = await self.ask(request)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        route = self._routes[topic] = decoded_route(address, answer)
        self.version += 1
        return route

    async def refresh(self, topics: Iterable[str]) -> None:
        """Ask again for `topics`; what can't be asked stays as it was known."""
        for topic in topics:
            try:
                await self.route(topic, fresh=True)
            except NoNameServer:
                return
            except (Refused, BadAnswer):
                continue

    def forget(self, topic: str) -> None:
        """What is known of `topic` proved wrong."""
        self._routes.pop(topic, None)
        self.version += 1

    # ---- what is known

    @property
    def known_topics(self) -> list[str]:
        """Topics with a route."""
        return list(self._routes)

    def brokers(self) -> dict[str, dict[int, str]]:
        """Of all known routes: broker name -> id -> address."""
        found: dict[str, dict[int, str]] = {}
        for route in self._routes.values():
            for group in route.broker_datas:
                found.setdefault(group.broker_name, {}).update(group.broker_addrs)
        return found

    def address(self, topic: str, broker_name: str, preferred_id: int = MASTER_ID) -> str | None:
        """Where to read; None while nobody has the queue.

        - topic: of the queue
        - broker_name: whose queue it is
        - preferred_id: the broker with this id, or else another of its name that can be reached
        """
        route = self._routes.get(topic)
        addresses = {} if route is None else addresses_of(route, broker_name)
        order = sorted(addresses, key=lambda number: (number != preferred_id, number < preferred_id, number))
        now = self._driver.seconds()
        for number in order:
            if self._unreachable.get(addresses[number], 0.0) <= now:
                return addresses[number]
        return addresses[order[0]] if order else None

    def master(self, topic: str, broker_name: str) -> str | None:
        """Where to write, if there's a master."""
        route = self._routes.get(topic)
        return None if route is None else addresses_of(route, broker_name).get(MASTER_ID)

    def unreachable(self, address: str) -> None:
        """It couldn't be reached: readers that have a choice should avoid it for a while."""
        self._unreachable[address] = self._driver.seconds() + UNREACHABLE_PAUSE

    def reached(self, address: str) -> None:
        """It answers. A reader that a master serves again mustn't be led away from it: a slave that was master
        itself may have other messages at the same offsets, until it is linked."""
        self._unreachable.pop(address, None)


Replicas = dict[int, str]
"""The brokers of one name: id -> "host:port"."""


def addresses_of(route: TopicRoute, broker_name: str) -> Replicas:
    """The brokers of one name in a route; none, if none is alive."""
    for group in route.broker_datas:
        if group.broker_name == broker_name:
            return group.broker_addrs
    return {}


def replicas_of(route: TopicRoute, broker_name: str) -> Replicas:
    """As `addresses_of`, a copy in the order of ids."""
    return dict(sorted(addresses_of(route, broker_name).items()))


def writable_queues(topic: str, route: TopicRoute, at_most: int | None = None) -> list[MessageQueue]:
    """All queues that take messages, by broker: those of groups with a live master.

    - topic: of the queues
    - route: of the topic
    - at_most: of each group; None: all
    """
    queues = []
    for data in sorted(route.queue_datas, key=_broker_name):
        if data.perm & PERM_WRITE and MASTER_ID in addresses_of(route, data.broker_name):
            count = data.write_queue_nums if at_most is None else min(at_most, data.write_queue_nums)
            queues += [_queue(topic, data.broker_name, number) for number in range(count)]
    return queues


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """All queues that can be read, by broker; from a slave as well."""
    return [
        _queue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=_broker_name)
        if data.perm & PERM_READ
        for number in range(data.read_queue_nums)
    ]


def _broker_name(data: QueueData) -> str:
    return data.broker_name


def _queue(topic: str, broker: str, number: int) -> MessageQueue:
    return MessageQueue(broker_name=broker, queue_id=number, topic=topic)


def merged(routes: Iterable[TopicRoute]) -> TopicRoute:
    """All brokers and queues that any of `routes` has: what several name servers know together. Where two
    contradict each other about an address, the earlier is believed."""
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
