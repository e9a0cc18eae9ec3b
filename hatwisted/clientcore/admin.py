"""Topics, groups and offsets of a cluster, as mqadmin shows and changes them.

Changes go to every master (of a cluster, if one is named) and fail with what the first refusal says; questions
add up what the brokers answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict, TypeVar, Unpack

from hatwisted.clientcore.answers import (
    ConnectionList,
    ConsumeStatsTable,
    GroupTable,
    ResetOffsets,
    RuntimeInfo,
    TopicList,
    TopicStats,
    by_queue,
    decoded,
    number_in,
    remark_in,
)
from hatwisted.clientcore.command import command
from hatwisted.clientcore.errors import ClientError, NoRoute, Refused
from hatwisted.clientcore.lookups import Lookups
from hatwisted.clientcore.message import checked_group, checked_topic
from hatwisted.clientcore.offsets import broker_address
from hatwisted.clientcore.routes import readable_queues
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID, SINGLE_TAG, BrokerData, ClusterInfo, TopicRoute
from hatwisted.wire.topics import AUTO_CREATE_TOPIC, DLQ_PREFIX, RETRY_PREFIX

T = TypeVar("T")

ADMIN_TIMEOUT: Final = 10.0
"""Seconds for one answer; resets ask clients in turn."""
LATEST: Final = -1
"""As a reset's timestamp: the end of each queue."""


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """A group's progress in a queue: next offset to consume, the queue's end, store time (ms) of the last one
    consumed (0: not known)."""

    queue: MessageQueue
    consumed: int
    end: int
    last_timestamp: int

    @property
    def lag(self) -> int:
        """Messages still to be consumed."""
        return self.end - self.consumed


class GroupSettings(TypedDict, total=False):
    """Of a consumer group, as RocketMQ's SubscriptionGroupConfig names them."""

    brokerId: int
    consumeBroadcastEnable: bool
    consumeEnable: bool
    consumeFromMinEnable: bool
    notifyConsumerIdsChangedEnable: bool
    retryMaxTimes: int
    retryQueueNums: int
    whichBrokerWhenConsumeSlowly: int


class Admin(Lookups):
    """Made by `Cluster.admin`. Every method fails with Refused, CallFailed, BadAnswer, NoNameServer or NoRoute.
    What a broker remarks on a change (which slaves lack it) is logged."""

    # ---- topics

    async def topics(self) -> list[str]:
        """All topic names, sorted."""
        found = await self._ask_names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList)
        return sorted(found.topic_list or [])

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic lives. NoRoute if no name server knows it."""
        route = await self._session.routes.route(topic, fresh=True)
        if route is None:
            raise NoRoute(topic, "the name servers don't know it")
        return route

    async def create_topic(
        self, topic: str, *, queues: int = 8, perm: int = 6, cluster: str | None = None
    ) -> list[str]:
        """Create or change a topic on all masters; fires with their addresses.

        - topic: its name
        - queues: to read and to write, on each master
        - perm: 4 read, 2 write, or their sum
        - cluster: its masters only; None: all that the name servers know
        """
        fields: dict[str, object] = {
            "topic": checked_topic(topic),
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": perm,
            "topicFilterType": SINGLE_TAG,
            "topicSysFlag": 0,
            "order": False,
        }
        return await self._on_masters(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, cluster=cluster)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Remove a topic from all masters and name servers; fires with the masters. NoRoute if there's none.

        cluster: its masters only, and its part of the routes (name servers of RocketMQ 4 forget all of it)
        """
        await self.route(topic)
        asked = await self._on_masters(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, cluster=cluster)
        fields = {"topic": topic} if cluster is None else {"topic": topic, "clusterName": cluster}
        for server in self._session.routes.servers:
            await self._session.ask(server, RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)
        self._session.routes.forget(topic)
        return asked

    async def topic_offsets(self, topic: str) -> dict[MessageQueue, tuple[int, int]]:
        """By queue: first and next offset."""
        found = {}
        for address in _readers_of((await self.route(topic)).broker_datas):
            code = RequestCode.GET_TOPIC_STATS_INFO
            stats = await self._ask(address, code, TopicStats, {"topic": topic})
            for queue, row in by_queue(address, stats.offset_table).items():
                found[queue] = row.min_offset, row.max_offset
        return dict(sorted(found.items()))

    # ---- the cluster

    async def cluster_info(self) -> ClusterInfo:
        """All brokers, by name and by cluster."""
        return await self._ask_names(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)

    async def broker_info(self, address: str) -> dict[str, str]:
        """What a broker reports about itself (version, rates, log offsets)."""
        info = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, RuntimeInfo)
        return {name: str(value) for name, value in info.table.items()}

    async def ha_status(self, address: str) -> dict[str, Any]:
        """A broker's end of the HA link, as RocketMQ 5's HARuntimeInfo. Refused by RocketMQ 4's."""
        return await self._ask(address, RequestCode.GET_BROKER_HA_STATUS, dict[str, Any])

    # ---- groups

    async def groups(self) -> dict[str, dict[str, Any]]:
        """Consumer groups and their settings, as the masters know them, or a slave while its master is gone."""
        found: dict[str, dict[str, Any]] = {}
        for address in await self._readers():
            known = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GroupTable)
            found |= known.subscription_group_table or {}
        return dict(sorted(found.items()))

    async def create_group(
        self, group: str, *, cluster: str | None = None, **settings: Unpack[GroupSettings]
    ) -> list[str]:
        """Create or change a consumer group; settings as RocketMQ names them. BadSetting for an illegal name."""
        config = {
            "brokerId": 0,
            "consumeBroadcastEnable": True,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "groupName": checked_group(group),
            "notifyConsumerIdsChangedEnable": True,
            "retryMaxTimes": 16,
            "retryQueueNums": 1,
            "whichBrokerWhenConsumeSlowly": 1,
            **settings,
        }
        body = fastjson.dumps_compact(config)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        return await self._on_masters(code, {}, body, cluster=cluster)

    async def delete_group(self, group: str, *, cluster: str | None = None) -> list[str]:
        """Remove a group, its progress, and its topics of retries and dead letters."""
        await self._check_group(group)
        fields: dict[str, object] = {"groupName": group, "removeOffset": True, "cleanOffset": True}
        asked = await self._on_masters(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields, cluster=cluster)
        for topic in (RETRY_PREFIX + group, DLQ_PREFIX + group):
            if await self._session.routes.route(topic, fresh=True) is not None:
                await self.delete_topic(topic, cluster=cluster)
        return asked

    async def _check_group(self, group: str) -> None:
        if group not in await self.groups():
            raise ClientError(
                f"group {group}: no broker knows it; a group exists once a consumer has used it"
            )

    async def members(self, group: str) -> dict[str, str]:
        """Client ids of a consumer group that are connected now, and their addresses."""
        found = {}
        for address in await self._readers():
            answer = await self._session.call(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
            )
            if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
                continue
            if answer.code != ResponseCode.SUCCESS:
                raise Refused.of(address, answer)
            for each in decoded(address, answer, ConnectionList).connection_set or []:
                found[each.client_id] = each.client_addr
        return dict(sorted(found.items()))

    # ---- offsets

    async def progress(self, group: str) -> list[QueueProgress]:
        """A group's progress, by queue. ClientError if no broker knows the group."""
        found = []
        retries = await self._session.routes.route(RETRY_PREFIX + group, fresh=True)
        if retries is None:
            # Never used by a consumer, but made by an operator, who may have put it somewhere; or misspelt.
            await self._check_group(group)
        brokers = await self._readers() if retries is None else _readers_of(retries.broker_datas)
        for address in brokers:
            code, fields = RequestCode.GET_CONSUME_STATS, {"consumerGroup": group}
            stats = await self._ask(address, code, ConsumeStatsTable, fields)
            for queue, row in by_queue(address, stats.offset_table).items():
                offsets = row.consumer_offset, row.broker_offset
                found.append(QueueProgress(queue, *offsets, row.last_timestamp))
        return sorted(found, key=lambda each: (each.queue.topic, each.queue.broker_name, each.queue.queue_id))

    async def reset_plan(
        self, group: str, topic: str, timestamp: int
    ) -> dict[MessageQueue, tuple[int | None, int]]:
        """What `reset` would do: by queue, where the group is (None: nowhere yet), and where it would go.
        ClientError if no broker knows the group.

        - group: which
        - topic: of the queues
        - timestamp: as of `reset`
        """
        route = await self.route(topic)
        await self._check_group(group)
        now = {each.queue: each.consumed for each in await self.progress(group)}
        return {
            queue: (now.get(queue), await self.offset_at(queue, timestamp))
            for queue in readable_queues(topic, route)
        }

    async def offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of a queue's first message that was stored at `timestamp` (ms) or later; LATEST: its end."""
        address = broker_address(self._session, queue)
        where: dict[str, object] = {"topic": queue.topic, "queueId": queue.queue_id}
        if timestamp == LATEST:
            answer = await self._session.ask(address, RequestCode.GET_MAX_OFFSET, where)
        else:
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            answer = await self._session.ask(address, code, where | {"timestamp": timestamp})
        return number_in(address, answer, "offset")

    async def reset(self, group: str, topic: str, timestamp: int) -> dict[MessageQueue, int]:
        """Move a group in all queues of a topic; its connected members move there at once. Fires with the
        new offsets.

        - group: which
        - topic: of the queues
        - timestamp: ms, to the first message stored then or later; LATEST: to the end, 0: to the beginning
        """
        route = await self.route(topic)
        fields: dict[str, object] = {"topic": topic, "group": group, "timestamp": timestamp, "isForce": True}
        found: dict[MessageQueue, int] = {}
        for broker in route.broker_datas:
            if (address := broker.broker_addrs.get(MASTER_ID)) is None:
                raise NoRoute(topic, f"{broker.broker_name} has no master now: its offsets can't be reset")
            code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
            answer = await self._session.call(address, code, fields, timeout=ADMIN_TIMEOUT)
            if answer.code in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR):
                # Nobody's there, or never was: the offsets are all there is to move.
                found |= await self._reset_offline(group, topic, route, broker.broker_name, timestamp)
                if answer.code == ResponseCode.CONSUMER_NOT_ONLINE or not await self.members(group):
                    continue
                # Or members are, who haven't read each queue: now that each has an offset they can be told.
                answer = await self._session.call(address, code, fields, timeout=ADMIN_TIMEOUT)
            if answer.code == ResponseCode.SUCCESS:
                moved = decoded(address, answer, ResetOffsets).offset_table or {}
                found |= by_queue(address, moved)
            elif answer.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise Refused.of(address, answer)
        return found

    async def _reset_offline(
        self, group: str, topic: str, route: TopicRoute, broker: str, timestamp: int
    ) -> dict[MessageQueue, int]:
        found = {}
        for queue in readable_queues(topic, route):
            if queue.broker_name != broker:
                continue
            offset = found[queue] = await self.offset_at(queue, timestamp)
            moved = {
                "topic": topic,
                "queueId": queue.queue_id,
                "consumerGroup": group,
                "commitOffset": offset,
            }
            address = broker_address(self._session, queue)
            await self._session.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, moved)
        return found

    async def clone_plan(
        self, source: str, target: str, topics: Collection[str] = ()
    ) -> dict[MessageQueue, tuple[int | None, int]]:
        """What `clone` would do: by queue, where `target` is (None: nowhere yet), and where `source` is.
        ClientError if no broker knows `source`.

        - source, target: groups
        - topics: only of these; none: of all that `source` has progress in
        """
        there: dict[MessageQueue, int] = {}
        if checked_group(target) in await self.groups():
            there = {each.queue: each.consumed for each in await self.progress(target)}
        return {
            each.queue: (there.get(each.queue), each.consumed)
            for each in await self.progress(source)
            if (each.queue.topic in topics if topics else not each.queue.topic.startswith(RETRY_PREFIX))
        }

    async def clone(self, source: str, target: str, topics: Collection[str]) -> list[str]:
        """Put a group where another one is; fires with the masters that have done it. `target` is made with the
        settings of `source` if no broker knows it. Its members have to be stopped: they commit their own progress.

        - source, target: groups
        - topics: whose offsets
        """
        groups = await self.groups()
        if target not in groups:
            known = groups.get(source, {}).items()
            settings: Any = {name: each for name, each in known if name in GroupSettings.__annotations__}
            await self.create_group(target, **settings)
        asked = set[str]()
        for topic in topics:
            fields = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": True}
            for broker in (await self.route(topic)).broker_datas:
                address = broker.broker_addrs.get(MASTER_ID)
                if address is None:
                    raise NoRoute(topic, f"{broker.broker_name} has no master now: it can't take offsets")
                code = RequestCode.CLONE_GROUP_OFFSET
                await self._session.ask(address, code, fields, timeout=ADMIN_TIMEOUT)
                asked.add(address)
        return sorted(asked)

    # ---- asking

    async def _ask(
        self, address: str, code: int, kind: type[T], fields: Mapping[str, object] | None = None
    ) -> T:
        answer = await self._session.ask(address, code, fields, timeout=ADMIN_TIMEOUT)
        return decoded(address, answer, kind)

    async def _ask_names(self, code: int, kind: type[T]) -> T:
        address, answer = await self._session.routes.ask(command(code))
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        return decoded(address, answer, kind)

    async def _masters(self, cluster: str | None) -> list[str]:
        info = await self.cluster_info()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ClientError(f"no cluster {cluster}; known: {known}")
        found = sorted(
            group.broker_addrs[MASTER_ID]
            for group in info.broker_addr_table.values()
            if MASTER_ID in group.broker_addrs and cluster in (None, group.cluster)
        )
        if not found:
            raise ClientError("the name servers know no master now")
        return found

    async def _readers(self) -> list[str]:
        """One broker of each group, as `_readers_of`."""
        found = list(_readers_of((await self.cluster_info()).broker_addr_table.values()))
        if not found:
            raise ClientError("the name servers know no broker now")
        return found

    async def _on_masters(
        self, code: int, fields: Mapping[str, object], body: bytes = b"", *, cluster: str | None
    ) -> list[str]:
        masters = await self._masters(cluster)
        for address in masters:
            if remark := remark_in(await self._session.ask(address, code, fields, body, ADMIN_TIMEOUT)):
                self._session.log.warn("{address}: {remark}", address=address, remark=remark)
        return masters


def _readers_of(groups: Iterable[BrokerData]) -> Iterable[str]:
    """One broker of each group: its master, or a slave while the master is gone."""
    for group in groups:
        if group.broker_addrs:
            yield group.broker_addrs[min(group.broker_addrs)]
