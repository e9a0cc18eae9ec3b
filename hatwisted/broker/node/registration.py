"""Telling the name servers what this broker serves, and learning from them where its master is.

Strategy: each name server is its own small state machine and none waits for another, so a dead one costs
the others nothing. All get the whole topic table at start, every period, and at once when a topic changes; what
clients have made so takes no more than REGISTERING of the loop's time, and goes out together. A name server that
fails is tried again after a pause that doubles up to the period, and one whose connection drops is registered
with again soon: it has just forgotten us.

With `always` off (forceRegister=false) a master asks each name server at the period whether the data version it
holds is still ours (322), which renews the lease, and registers only if not. A slave registers in full all the
same: the answer is how it learns where its master is.

Rejected: sending only the new topic (a name server that missed one such message would take the next version
for complete), and registering oneway (a refusal would go unseen).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.node.masteraddress import KnownMaster
from hatwisted.broker.role import Role
from hatwisted.broker.tabletext import KeptBody
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.remoting.client import RemotingClient
from hatwisted.timing.pauses import doubled
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.timer import GuardedTimer
from hatwisted.timing.timeshare import TimeShare
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registerbody import body_checksum, encode_register_body
from hatwisted.wire.registration import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    BadRegistration,
    DataVersion,
    RegisterBody,
    decode_request,
    encode_body,
)
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import RegisterBrokerHeader

PERIOD_LIMITS = (10.0, 60.0)
"""Seconds; a configured period is brought within these, as RocketMQ does."""

FIRST_RETRY = 1.0
"""Seconds until a failed registration is tried again; doubles up to the period."""

UNREGISTER_TIMEOUT = 3.0
"""Seconds an orderly stop waits for a name server."""

NO_VERSION = DataVersion(counter=-1)
"""No table has it: a question with the version that the name server holds would renew the broker's lease."""

MAX_UNDER_WAY = 4
"""Registrations one name server may owe an answer to; topics made meanwhile go out with the next."""

REGISTERING = 0.1
"""Share of the loop's time for registrations because topics have changed: each is of all topics."""


class RegistrationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a broker registers.

    - name_servers: their addresses, "host:port"
    - period, timeout: seconds (registerNameServerPeriod, registerBrokerTimeoutMills)
    - always: see above (forceRegister); compressed: send bodies deflated (compressedRegister)
    - permission: what the broker as a whole allows (brokerPermission)
    """

    name_servers: Sequence[str]
    period: float = 30.0
    timeout: float = 6.0
    always: bool = True
    compressed: bool = False
    permission: int = PERM_READ | PERM_WRITE


class Registration:
    """Keeps this broker registered between `start` and `stop`.

    - client: calls name servers
    - clock: of the rounds
    - topics: what is registered
    - identity: who we are
    - role: master or slave
    - options: which name servers, and how often
    """

    _log = Logger()

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        topics: TopicConfigTable,
        identity: BrokerIdentity,
        role: Role,
        options: RegistrationOptions,
    ) -> None:
        self._identity = identity
        self._role = role
        self.period = min(max(options.period, PERIOD_LIMITS[0]), PERIOD_LIMITS[1])
        self.timeout = options.timeout
        self.running = False
        self._client = client
        self._topics = topics
        self._always = options.always
        self._compressed = options.compressed
        self._permission = options.permission
        self._master_listeners: list[Callable[[KnownMaster], None]] = []
        self._master = KnownMaster()
        self._name_servers = {each: _NameServer(each, client, clock, self) for each in options.name_servers}
        self._loop = PeriodicCall(clock, "registering with the name servers", self._periodic)
        self._changes = TimeShare(clock, "registering changed topics", self.register_now, REGISTERING)
        self._body = KeptBody(self._encode)
        client.on_lost(self._lost)
        topics.on_change(self._topics_changed)

    @property
    def registered_at(self) -> int:
        """Name servers that have taken our registration, and are still connected."""
        return sum(each.master is not None for each in self._name_servers.values())

    def on_master(self, listener: Callable[[KnownMaster], None]) -> None:
        """`listener(known)` when the name servers say something else of the master than before."""
        self._master_listeners.append(listener)

    def start(self) -> None:
        """Register, and again every period."""
        self.running = True
        self._loop.start(self.period, now=True)

    def _periodic(self) -> None:
        if self._always or self._role.broker_id != MASTER_ID:
            self.register_now()
            return
        for name_server in self._name_servers.values():
            name_server.confirm()

    def permit(self, permission: int) -> None:
        """Tell the name servers of the topics with this broker permission from now on."""
        if permission != self._permission:
            self._permission = permission
            self._topics.touch()

    def register_now(self) -> None:
        """Send the present topic table to every name server; nothing happens unless started."""
        if self.running:
            for name_server in self._name_servers.values():
                name_server.register()

    def _topics_changed(self) -> None:
        if self.running:
            self._changes.ask()

    def settled(self) -> Deferred[None]:
        """Fires when no name server owes an answer any more (each has a timeout); never fails."""
        self._changes.hurry()
        waits = [name_server.settled() for name_server in self._name_servers.values()]
        return DeferredList(waits).addCallback(lambda _: None)

    def version_of(self, master: str) -> Deferred[DataVersion | None]:
        """Which topics of the master at `master` ("host:port") a name server that we are registered with has; None
        if none says. Never fails."""
        for name_server in self._name_servers.values():
            if name_server.master is not None:
                return name_server.version_of(master)
        return succeed(None)

    def stop(self) -> Deferred[None]:
        """Unregister everywhere; fires when all have answered or taken too long."""
        if not self.running:
            return self.settled()
        self.running = False
        self._loop.stop()
        self._changes.cancel()
        waits = [name_server.unregister() for name_server in self._name_servers.values()]
        return DeferredList(waits).addCallback(lambda _: None)

    def header(self) -> RegisterBrokerHeader:
        """Who we are at present."""
        return self._identity.header(self._role.broker_id)

    def request(self) -> RemotingCommand:
        """The present registration."""
        body = self._body.of(self._topics.version)
        header = msgspec.structs.replace(
            self.header(), compressed=self._compressed, body_crc32=body_checksum(body)
        )
        return RemotingCommand(RequestCode.REGISTER_BROKER, ext=header.to_ext(), body=body)

    def _encode(self) -> bytes:
        table = self._topics.table(self._permission)
        return encode_register_body(RegisterBody(topic_config_serialize_wrapper=table), self._compressed)

    def question(self) -> tuple[RemotingCommand, DataVersion]:
        """Whether a name server has our present topics, and the version it should hold."""
        version = self._topics.version
        ext = self.header().to_ext()
        return RemotingCommand(RequestCode.QUERY_DATA_VERSION, ext=ext, body=encode_body(version)), version

    def answered(self) -> None:
        """A name server took a registration: see what they say of ordered topics and of the master."""
        if self._role.broker_id == MASTER_ID:
            self._take_ordered()
            return
        masters = [name_server.master for name_server in self._name_servers.values()]
        known = [master for master in masters if master is not None and master.address]
        # The HA address outlives its master: it is where the slave dials when that one is back.
        master = known[0] if known else KnownMaster(None, self._master.ha_address)
        if master != self._master:
            self._master = master
            self._log.info(
                "master is {address}, HA at {ha_address}",
                address=master.address or "not registered",
                ha_address=master.ha_address or "unknown",
            )
            for listener in self._master_listeners:
                listener(master)

    def _take_ordered(self) -> None:
        """What one of them says: two that differ would have the table change, and be registered, with each of
        their answers. A slave's table is its master's, and would differ from that."""
        for each in self._name_servers.values():
            if each.master is not None and each.ordered is not None:
                self._topics.set_ordered(each.ordered)
                return

    def _lost(self, address: str) -> None:
        name_server = self._name_servers.get(address)
        if name_server is not None and self.running:
            name_server.retry_later()


class _NameServer:
    """One name server: registrations under way, the pause after a failure, what it said last."""

    _log = Logger(namespace="hatwisted.broker.node.registration")

    def __init__(
        self, address: str, client: RemotingClient, clock: IReactorTime, owner: Registration
    ) -> None:
        self._address = address
        self._client = client
        self._owner = owner
        self._under_way = 0
        self._once_more = False
        self._failures = 0
        self._known = False
        """Has it taken a registration on the present connection?"""
        self._retry = GuardedTimer(clock, f"registering at {address}", self.register, owner.period)
        self._waiting: list[Deferred[None]] = []
        self._answered = KnownMaster()
        self.ordered: dict[str, object] | None = None
        """The topics that are ordered, by its last answer; None if that doesn't say."""

    @property
    def master(self) -> KnownMaster | None:
        """What it says of the master; None while it says nothing: its last word may be long outdated."""
        return self._answered if self._known else None

    def register(self) -> None:
        if self._under_way >= MAX_UNDER_WAY:
            self._once_more = True
            return
        self._retry.cancel()
        self._once_more = False
        self._under_way += 1
        call = self._client.ask(self._address, self._owner.request(), self._owner.timeout)
        call.addCallbacks(self._registered, self._failed).addErrback(self._broken).addCallback(self._done)

    def confirm(self) -> None:
        """Register unless the name server says that it already has all of it."""
        if not self._known or self._under_way:
            self.register()
            return
        self._under_way += 1
        command, version = self._owner.question()
        call = self._client.ask(self._address, command, self._owner.timeout)
        call.addCallbacks(lambda answer: _holds(answer, version), _unanswered)
        call.addErrback(self._broken).addCallback(self._confirmed)

    def _confirmed(self, holds: object) -> None:
        if not holds and self._owner.running:
            self._once_more = True
        self._done(None)

    def version_of(self, master: str) -> Deferred[DataVersion | None]:
        header = msgspec.structs.replace(self._owner.header(), broker_addr=master, broker_id=MASTER_ID)
        body = encode_body(NO_VERSION)
        command = RemotingCommand(RequestCode.QUERY_DATA_VERSION, ext=header.to_ext(), body=body)
        call = self._client.ask(self._address, command, self._owner.timeout)
        return call.addCallbacks(_version_in, _no_version)

    def unregister(self) -> Deferred[None]:
        self._retry.cancel()
        self._once_more = False
        ext = self._owner.header().to_ext()
        command = RemotingCommand(RequestCode.UNREGISTER_BROKER, ext=ext)
        call = self._client.ask(self._address, command, UNREGISTER_TIMEOUT)
        return call.addCallbacks(lambda _: None, self._not_unregistered)

    def retry_later(self) -> None:
        """Register after a pause, unless that is planned already."""
        self._known = False
        if not self._retry.pending:
            self._retry.set(doubled(FIRST_RETRY, max(0, self._failures - 1), self._owner.period))

    def settled(self) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        self._settle_waiting()
        return done

    def _registered(self, response: RemotingCommand) -> None:
        if self._failures:
            self._log.info("registered with {address} again", address=self._address)
        self._failures = 0
        self._known = True
        ext = response.ext
        self._answered = KnownMaster(ext.get("masterAddr") or None, ext.get("haServerAddr") or None)
        self.ordered = self._ordered_in(response.body)
        self._owner.answered()

    def _ordered_in(self, body: bytes) -> dict[str, object] | None:
        try:
            content = fastjson.loads_request(body) if body else None
        except fastjson.FastjsonError as error:
            self._log.warn("unreadable list of ordered topics: {error}", error=error)
            return None
        table = content.get("table") if isinstance(content, dict) else None
        return table if isinstance(table, dict) else None

    def _failed(self, failure: Failure) -> None:
        """Logged once; the next line is that it works again."""
        failure.trap(CallFailed, Refused)
        self._failures += 1
        if self._failures == 1:
            self._log.warn(
                "not registered: {error}", event="broker.unregistered", error=failure.getErrorMessage()
            )
        if self._owner.running:
            self.retry_later()

    def _broken(self, failure: Failure) -> None:
        self._log.failure("registering with {address} failed", failure, address=self._address)

    def _done(self, _: None) -> None:
        self._under_way -= 1
        if self._once_more and self._owner.running:
            self.register()
        self._settle_waiting()

    def _settle_waiting(self) -> None:
        if not self._under_way:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)

    def _not_unregistered(self, failure: Failure) -> None:
        failure.trap(CallFailed, Refused)
        self._log.info("not unregistered: {error}", error=failure.getErrorMessage())


def _holds(answer: RemotingCommand, version: DataVersion) -> bool:
    """Does the answer to a QUERY_DATA_VERSION say that this is the version held?"""
    if answer.ext.get("changed") != "false":
        return False
    return not answer.body or decode_request(answer.body, DataVersion) == version


def _version_in(answer: RemotingCommand) -> DataVersion | None:
    """The version that the answer to a QUERY_DATA_VERSION names."""
    try:
        return decode_request(answer.body, DataVersion) if answer.body else None
    except BadRegistration:
        return None


def _no_version(failure: Failure) -> None:
    failure.trap(CallFailed, Refused)


def _unanswered(failure: Failure) -> bool:
    """Register with a name server that can't be asked, or doesn't know the question."""
    failure.trap(CallFailed, Refused)
    return False
