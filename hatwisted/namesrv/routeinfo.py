"""Which broker serves which topic: the table behind every registration and every route.

A broker *group* (one name) has members, id to address; id 0 is the master and the only one whose topic
table counts. Each living member has a lease: the connection it registered on and the time it did. A member
goes when that very connection closes, when its lease runs out, or when it says so; a group goes with its
last member, and with it its queues. So a group whose master died keeps its routes as long as a slave lives,
which is what lets consumers read on from the slave.

Registering merges: a broker that has just created a topic sends that one alone, so a registration never takes
topics away. They leave with their group or by `delete_topic`.

Rules are those of RocketMQ 4.9.7's RouteInfoManager with two repairs. Unregistering takes effect only if id and
address belong together, so that the orderly stop of a replaced master doesn't throw its successor out. And it's a
broker's own affair, as is the word that it lives on: both are believed on the connection of its last registration,
and from that connection's host (brokers connect again), and of nobody else.

A plain table without sockets: connections are opaque keys, time is the clock's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.namesrv.members import Gone, Lease, Master, Member, Size, Source
from hatwisted.namesrv.routeshares import SHARE
from hatwisted.namesrv.topiclists import TopicLists
from hatwisted.namesrv.topicqueues import MAX_NAME, TopicQueues
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.registration import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    BadRegistration,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfig,
    TopicRoute,
)

LEASE = 120.0
"""Seconds without a registration after which a broker counts as gone; they register every 30 s (4.9.7: 120
s)."""

MAX_BROKERS = 10_000
"""Living brokers."""

MAX_FILTER_SERVERS = 64
"""Addresses that one broker may name."""

TOLD = 10
"""Brokers that leave at once and have a line each in the log."""

_ENTERING = DataVersion(counter=-1)
"""Of a broker whose topics are being entered: no broker's."""


class RouteTable:
    """All groups and topics. Invariant: a group has at least one member, a topic at least one group."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._groups: dict[str, BrokerData] = {}
        self._topics = TopicQueues(clock)
        self.lists = TopicLists(clock, self._topics, self._groups_of)
        self._leases: dict[str, Lease] = {}
        self._on: dict[Hashable, dict[str, None]] = {}
        """Addresses of the leases by connection."""
        self._of_host: Counter[str] = Counter()
        """Leases."""
        self._twofold = LogThrottle(clock)
        self._strangers = LogThrottle(clock)
        self.gone: Counter[Gone] = Counter()
        """Why brokers went -> how many did."""

    # ---- what brokers say

    def register(
        self,
        member: Member,
        topics: Mapping[str, TopicConfig],
        version: DataVersion,
        source: Source,
        filter_servers: Iterable[str] = (),
    ) -> Generator[None, None, Master | None]:
        """Enter or renew a broker, a thousand topics at a time; returns its group's living master if it isn't the
        master itself.

        - member: who it is, and where
        - topics: its topics; those of a slave don't count
        - version: of its topics
        - source: on whose connection it lives
        - filter_servers: their addresses

        Raises BadRegistration if that were more than there may be. Nothing is changed then, but a broker that has
        registered before lives on with what it had: whoever fills the table doesn't empty it of others. A broker
        that leaves between two steps takes along what has been entered; BadRegistration then, too.
        """
        filter_servers = list(filter_servers)
        self._check(member, filter_servers, source.host)
        if member.id == MASTER_ID:
            try:
                self._topics.check_room(member.group, topics, source.host)
            except BadRegistration:
                self._keep(member, source)
                raise
        former = self._leases.get(member.address)
        if former is not None and former.member.group != member.group:
            self._drop([member.address], Gone.RENAMED, f"it registers as {member.group} now")
        made = BrokerData(broker_name=member.group, cluster=member.cluster)
        group = self._groups.setdefault(member.group, made)
        if member.id == MASTER_ID and group.cluster != member.cluster:
            group.cluster = member.cluster
            self._topics.version += 1
        new = self._enter(group, member)
        # A slave's topics didn't count, whichever version it registered them with.
        count = member.id == MASTER_ID and (new or self.changed(member.address, version))
        now = self._clock.seconds()
        lease = Lease(member, _ENTERING if count else version, source, filter_servers, now)
        self._put_on(source, lease)
        self._leases[member.address] = lease
        if count:
            yield from self._topics.merge(
                member.group, topics, source.host, lambda: self._leases.get(member.address) is lease
            )
            lease.version = version
        return None if member.id == MASTER_ID else self._master_of(group)

    def register_topic(self, topic: str, queues: Iterable[QueueData], host: str) -> None:
        """A topic alone, of groups that are registered (5.x's enableSingleTopicRegister).

        - topic: its name
        - queues: of each group
        - host: that says so

        Raises BadRegistration.
        """
        for data in queues:
            if data.broker_name in self._groups:
                self._topics.check_room(data.broker_name, (topic,), host)
                self._topics.add(topic, data, host)

    def _keep(self, member: Member, source: Source) -> None:
        lease = self._leases.get(member.address)
        if lease is not None and lease.member == member:
            lease.renewed = self._clock.seconds()
            self._put_on(source, lease)
            lease.source = source

    def _put_on(self, source: Source, lease: Lease) -> None:
        """A lease is on this connection now, and on no other."""
        former = self._leases.get(lease.member.address)
        if former is not None:
            self._take_off(former)
        self._on.setdefault(source.connection, {})[lease.member.address] = None
        self._of_host[source.host] += 1

    def _take_off(self, lease: Lease) -> None:
        connection, host = lease.source
        addresses = self._on[connection]
        del addresses[lease.member.address]
        if not addresses:
            del self._on[connection]
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _check(self, member: Member, filter_servers: list[str], host: str) -> None:
        named = (member.cluster, member.group, member.address, member.ha_address, *filter_servers)
        if len(filter_servers) > MAX_FILTER_SERVERS or max(map(len, named)) > MAX_NAME:
            raise BadRegistration(
                f"names have at most {MAX_NAME} characters, filter servers are {MAX_FILTER_SERVERS}"
            )
        lease = self._leases.get(member.address)
        if lease is None and len(self._leases) >= MAX_BROKERS:
            raise BadRegistration(f"{MAX_BROKERS} brokers are registered already")
        if (lease is None or lease.source.host != host) and self._of_host[host] >= MAX_BROKERS // SHARE:
            raise BadRegistration(f"{self._of_host[host]} brokers are registered from {host}, its share")

    def unregister(self, group_name: str, broker_id: int, address: str, source: Source) -> bool:
        """A broker stops in good order. Unknown ones are no error.

        - group_name: of its broker group
        - broker_id: 0: the master
        - address: its "host:port"
        - source: who says so

        False if that isn't for this one to say.
        """
        group = self._groups.get(group_name)
        if group is None or group.broker_addrs.get(broker_id) != address:
            self._log.info("unregistering {address}: not registered as {id}", address=address, id=broker_id)
            return True
        lease = self._leases.get(address)
        if lease is not None:
            if not lease.is_of(source):
                self._warn_of_stranger(lease, source)
                return False
            del self._leases[address]
            self._take_off(lease)
            self.gone[Gone.UNREGISTERED] += 1
        self._leave(group, broker_id, "it unregistered")
        self._topics.sweep()
        return True

    def _warn_of_stranger(self, lease: Lease, source: Source) -> None:
        left_out = self._strangers.admit(source.host)
        if left_out is not None:
            self._log.warn(
                "{host} must not unregister {group} id {id} at {address}, which {owner} has registered{more}",
                event="names.stranger",
                host=source.host,
                group=lease.member.group,
                id=lease.member.id,
                address=lease.member.address,
                owner=lease.source.host,
                more=more_like_it(left_out),
            )

    def changed(self, address: str, version: DataVersion) -> bool:
        """Is `version` another than the one registered for `address` (or is none)?"""
        lease = self._leases.get(address)
        return lease is None or lease.version != version

    def version(self, address: str) -> DataVersion | None:
        """The topic table's version that the broker at `address` registered."""
        lease = self._leases.get(address)
        return lease.version if lease is not None else None

    def renew(self, address: str, source: Source) -> bool:
        """The broker is alive and its topics are as they were; False if that isn't for this one to say."""
        lease = self._leases.get(address)
        if lease is None or not lease.is_of(source):
            return False
        lease.renewed = self._clock.seconds()
        return True

    def closed(self, connection: Hashable) -> None:
        """A connection is gone: so are the brokers whose last registration came on it."""
        self._drop([*self._on.get(connection, ())], Gone.CLOSED, "its connection closed")

    def expire(self) -> list[Hashable]:
        """Drop the brokers whose lease has run out; returns their connections, which are of no more use."""
        limit = self._clock.seconds() - LEASE
        expired = [
            (address, lease.source.connection)
            for address, lease in self._leases.items()
            if lease.renewed < limit
        ]
        addresses = [address for address, _ in expired]
        self._drop(addresses, Gone.EXPIRED, f"it hasn't registered for {LEASE:g} s")
        return [connection for _, connection in expired]

    def _enter(self, group: BrokerData, member: Member) -> bool:
        """Put the member in its place; was it empty, or another one's?"""
        members = group.broker_addrs
        for other in [other for other, address in members.items() if address == member.address]:
            if other != member.id:  # a slave that was made master, or the reverse
                del members[other]
        former = members.get(member.id)
        members[member.id] = member.address
        if former != member.address:
            if former in self._leases:
                self._warn_of_two(group, member, former)
            self._log.info(
                "broker {group} id {id} is {address}, was {former}",
                group=group.broker_name,
                id=member.id,
                address=member.address,
                former=former or "not registered",
            )
        return former != member.address

    def _warn_of_two(self, group: BrokerData, member: Member, former: str) -> None:
        if self._twofold.admit((member.group, member.id)) is not None:
            self._log.warn(
                "two brokers register as {group} id {id}, {former} and {address}: if both of them run, clients "
                "find one at a time; give each a brokerId of its own",
                event="names.ids",
                group=group.broker_name,
                id=member.id,
                former=former,
                address=member.address,
            )

    def _master_of(self, group: BrokerData) -> Master | None:
        address = group.broker_addrs.get(MASTER_ID)
        lease = self._leases.get(address) if address is not None else None
        return Master(lease.member.address, lease.member.ha_address) if lease is not None else None

    def _drop(self, addresses: list[str], reason: Gone, why: str) -> None:
        for index, address in enumerate(addresses):
            lease = self._leases.pop(address)
            self._take_off(lease)
            self.gone[reason] += 1
            member = lease.member
            group = self._groups.get(member.group)
            if group is not None and group.broker_addrs.get(member.id) == address:
                self._leave(group, member.id, why if index < TOLD else None)
        if len(addresses) > TOLD:
            more = len(addresses) - TOLD
            self._log.info("{more} more brokers are gone: {why}", more=more, why=why)
        self._topics.sweep()

    def _leave(self, group: BrokerData, broker_id: int, why: str | None) -> None:
        """A member's place is empty. why: for the log; None: not told."""
        address = group.broker_addrs.pop(broker_id)
        if why is not None:
            self._log.info(
                "broker {group} id {id} at {address} is gone: {why}",
                group=group.broker_name,
                id=broker_id,
                address=address,
                why=why,
            )
        if not group.broker_addrs:
            del self._groups[group.broker_name]
            self._topics.leave(group.broker_name)

    # ---- what clients ask

    def route(self, topic: str) -> TopicRoute | None:
        """Queues of the topic and the members of every group that has some; None if no group has."""
        queues = self._topics.of(topic)
        groups = [self._groups[name] for name in queues if name in self._groups]
        if not groups:
            return None
        filters = {
            address: self._leases[address].filter_servers
            for group in groups
            for address in group.broker_addrs.values()
            if address in self._leases and self._leases[address].filter_servers
        }
        return TopicRoute(broker_datas=groups, filter_server_table=filters, queue_datas=list(queues.values()))

    def group(self, name: str) -> BrokerData | None:
        """The members of a group."""
        return self._groups.get(name)

    def holders(self, member: Member) -> list[str]:
        """The living brokers in its place and at its address, each with the host that has said so."""
        group = self._groups.get(member.group)
        there = {member.address} | (set() if group is None else {group.broker_addrs.get(member.id)})
        leases = [self._leases[each] for each in sorted(filter(None, there)) if each in self._leases]
        return [
            f"{lease.member.group} id {lease.member.id} at {lease.member.address}, from {lease.source.host}"
            for lease in leases
        ]

    def cluster_info(self) -> ClusterInfo:
        """Every group, and the names of each cluster's groups."""
        clusters: dict[str, list[str]] = {}
        for group in self._groups.values():
            clusters.setdefault(group.cluster, []).append(group.broker_name)
        return ClusterInfo(broker_addr_table=dict(self._groups), cluster_addr_table=clusters)

    def size(self) -> Size:
        """How much there is."""
        leaderless = sum(MASTER_ID not in group.broker_addrs for group in self._groups.values())
        return Size(len(self._leases), len(self._groups), leaderless, len(self._topics), self._topics.routes)

    def topics(self) -> list[str]:
        """Names of all topics; see `lists` for what is answered."""
        return list(self._topics)

    def _groups_of(self, cluster: str) -> list[str]:
        """Names of the cluster's groups."""
        return [group.broker_name for group in self._groups.values() if group.cluster == cluster]

    def permissions(self, group_name: str) -> dict[str, int]:
        """Permission, as text -> how many topics have it in a group."""
        return self._topics.permissions(group_name)

    # ---- what operators change

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget the topic, or only what the groups of `cluster` have of it."""
        for name in [*self._topics.of(topic)]:
            if not cluster or (name in self._groups and self._groups[name].cluster == cluster):
                self._topics.drop(topic, name)

    def wipe_write_permission(self, group_name: str) -> int:
        """Make all topics of a group read-only until its topic table changes; returns how many."""
        return self._topics.set_permission(group_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_permission(self, group_name: str) -> int:
        """Make all topics of a group readable and writable; returns how many."""
        return self._topics.set_permission(group_name, lambda _: PERM_READ | PERM_WRITE)
