"""One identity among the brokers: connections, routes, who has joined, and the heartbeats that say so.

Producers, consumers and administration all stand on one `Session` and don't know each other. It has one
connection per broker, whatever number of members it serves; brokers see all their groups in one heartbeat,
every 30 s, to masters for producers and to every broker when there are consumers. What brokers ask in return
(39, 40, 220, 221, 307, 309) is handed to the member of the group it is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from hatwisted.clientcore.command import command
from hatwisted.clientcore.driver import Answer, Driver, Repeating, in_background
from hatwisted.clientcore.errors import BadSetting, CallFailed, Closed, ConnectFailed, Refused
from hatwisted.clientcore.routes import Routes
from hatwisted.clientcore.tasks import Work, gather, settle_all
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand

HEARTBEAT_INTERVAL: Final = 30.0
ROUTE_INTERVAL: Final = 30.0
"""Seconds; RocketMQ's clients do the same, and brokers forget a client after 120."""
CALL_TIMEOUT: Final = 3.0
"""Seconds for an ordinary answer of a broker (4.9.7: 3 s)."""


class GroupMember(Protocol):
    """A producer or consumer as its session sees it."""

    @property
    def group(self) -> str:
        """Group name."""

    @property
    def topics(self) -> list[str]:
        """Topics whose routes it needs."""

    def heartbeat(self) -> Mapping[str, object]:
        """Its entry in a heartbeat."""

    def on_request(self, address: str, request: RemotingCommand) -> Answer:
        """A broker asks it something."""

    async def stop(self) -> None:
        """Leave in order."""


class Session:
    """One identity among the brokers.

    - driver: the loop it runs on
    - name_servers: "host:port" each
    - client_id: unique among all clients
    """

    def __init__(self, driver: Driver, name_servers: Sequence[str], client_id: str) -> None:
        self.driver = driver
        self.log = driver.log
        self.client_id = client_id
        self.routes = Routes(driver, name_servers)
        driver.serve(self._on_request, self._lost)
        self._producers: dict[str, GroupMember] = {}
        self._consumers: dict[str, GroupMember] = {}
        self._beaten: set[str] = set()
        self._refusals: dict[str, Refused] = {}
        self._joined = 0
        """Rises with each member: a heartbeat that was made before says nothing of it."""
        self._heard: set[str] = set()
        """Brokers that have heard of all members."""
        self._listening: tuple[tuple[int, bool], list[str]] = (-1, False), []
        self._beat = Repeating(driver, HEARTBEAT_INTERVAL, self._heartbeat_quietly, "heartbeat")
        self._refresh = Repeating(driver, ROUTE_INTERVAL, self._refresh_routes, "refreshing routes")
        self._closed = self._introducing = False

    # ---- who stands on it

    @property
    def consumers(self) -> list[GroupMember]:
        """Those that have joined."""
        return list(self._consumers.values())

    @property
    def producers(self) -> list[GroupMember]:
        """Those that have joined."""
        return list(self._producers.values())

    def join(self, member: GroupMember, *, consumer: bool) -> None:
        """From now on `member` is in the heartbeats. Closed, or BadSetting if the group has one here."""
        if self._closed:
            raise Closed("this cluster link is closed")
        table = self._consumers if consumer else self._producers
        if table.get(member.group, member) is not member:
            raise BadSetting(f"group {member.group} has a member on this cluster link already")
        table[member.group] = member
        self._joined += 1
        self._heard.clear()
        if not self._beat.running:
            self._beat.start()
            self._refresh.start()

    async def leave(self, member: GroupMember, *, consumer: bool) -> None:
        """Take `member` out of the heartbeats and unregister it from all brokers that know it."""
        table = self._consumers if consumer else self._producers
        if table.get(member.group) is not member:
            return
        del table[member.group]
        field = "consumerGroup" if consumer else "producerGroup"
        ext = {"clientID": self.client_id, field: member.group}
        request = RemotingCommand(RequestCode.UNREGISTER_CLIENT, ext=ext)
        await settle_all(self._tell(each, request) for each in sorted(self._beaten))
        if not self._producers and not self._consumers:
            self._beat.stop()
            self._refresh.stop()

    async def close(self) -> None:
        """Take no more members, close all connections. Stop the members first."""
        self._closed = True
        await self.driver.close()

    async def _tell(self, address: str, request: RemotingCommand) -> None:
        await self.driver.call(address, request, CALL_TIMEOUT)

    # ---- asking brokers

    async def call(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        timeout: float = CALL_TIMEOUT,
    ) -> RemotingCommand:
        """The answer, whatever its code. CallFailed if there's none; who can't be reached is remembered, until it
        answers.

        - address: "host:port"
        - code: a RequestCode
        - ext: fields, see `command`
        - body: bytes
        - timeout: seconds
        """
        try:
            answer = await self.driver.call(address, command(code, ext, body), timeout)
        except ConnectFailed:
            self.routes.unreachable(address)
            raise
        self.routes.reached(address)
        return answer

    async def ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        timeout: float = CALL_TIMEOUT,
    ) -> RemotingCommand:
        """As `call`, and Refused when the answer isn't SUCCESS."""
        answer = await self.call(address, code, ext, body, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        return answer

    # ---- heartbeats

    async def heartbeat(self) -> None:
        """Tell every broker that should know who is here; one that can't be reached hears it next time."""
        body = fastjson.dumps_compact(
            {
                "clientID": self.client_id,
                "consumerDataSet": [each.heartbeat() for each in self._consumers.values()],
                "producerDataSet": [each.heartbeat() for each in self._producers.values()],
            }
        )
        joined = self._joined
        await gather(self._beat_one(address, body, joined) for address in self._listeners())

    @property
    def refusal(self) -> Refused | None:
        """Why a broker lets no member in for good, as long as none lets them in."""
        return None if self._beaten else next(iter(self._refusals.values()), None)

    def introduce(self) -> None:
        """Beat soon, if a known broker hasn't heard of all members yet."""
        if not self._introducing and not self._heard.issuperset(self._listeners()):
            self._introducing = True
            self.in_background(self._introduce(), "first heartbeat")

    async def _introduce(self) -> None:
        try:
            await self.heartbeat()
        finally:
            self._introducing = False

    def _listeners(self) -> list[str]:
        """Brokers that heartbeats go to. Asked at every send, and made of the routes when these have changed."""
        made_of = self.routes.version, bool(self._consumers)
        if self._listening[0] != made_of:
            found = [
                address
                for addresses in self.routes.brokers().values()
                for number, address in addresses.items()
                if self._consumers or number == MASTER_ID
            ]
            self._listening = made_of, found
        return self._listening[1]

    async def _beat_one(self, address: str, body: bytes, joined: int) -> None:
        try:
            await self.ask(address, RequestCode.HEART_BEAT, body=body)
        except (CallFailed, Refused) as error:
            self.log.info("heartbeat: {error}", error=error)
            if isinstance(error, Refused) and error.lasting:
                self._refusals[address] = error
        else:
            self._beaten.add(address)
            self._refusals.pop(address, None)
            if joined == self._joined:
                self._heard.add(address)

    def _heartbeat_quietly(self) -> None:
        if self._producers or self._consumers:
            self.in_background(self.heartbeat(), "heartbeat")

    def _refresh_routes(self) -> None:
        members = [*self._producers.values(), *self._consumers.values()]
        # All that is known, needed or not: heartbeats go wherever any route leads.
        topics = {topic for member in members for topic in member.topics} | {*self.routes.known_topics}
        self.in_background(self.routes.refresh(sorted(topics)), "refreshing routes")

    def in_background(self, work: Work[Any], what: str) -> None:
        """Run a coroutine in the background; its failure is logged."""
        in_background(self.driver, work, what)

    # ---- what brokers want

    def _lost(self, address: str) -> None:
        self._beaten.discard(address)
        self._heard.discard(address)
        self._refusals.pop(address, None)

    def _on_request(self, address: str, request: RemotingCommand) -> Answer:
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            for producer in self.producers:
                producer.on_request(address, request)
            return None
        group = request.ext.get("consumerGroup") or request.ext.get("group") or ""
        member = self._consumers.get(group)
        if member is not None:
            return member.on_request(address, request)
        if request.code in _ABOUT_A_CONSUMER:
            remark = f"The Consumer Group <{group}> not exist in this consumer"
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark)
        return None


_ABOUT_A_CONSUMER: Final = frozenset(
    (
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    )
)
"""Questions that need an answer also when the consumer has just gone."""
