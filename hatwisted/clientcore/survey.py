"""Asking everybody: name servers for their brokers, brokers for their figures, consumer groups for their lag.

Nobody's silence hides the others: whoever fails is in the result with the reason. All are asked at once, so that
the silent ones cost one timeout together; slaves before their masters, so that a slave's log that is longer than
its master's can't come from the time between the two questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hatwisted.clientcore.admin import Admin, QueueProgress
from hatwisted.clientcore.answers import RuntimeInfo, decoded
from hatwisted.clientcore.errors import BadAnswer, ClientError, Refused
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.tasks import Task, gather
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import TOOLS_GROUP
from hatwisted.wire.registration import MASTER_ID, BrokerData, ClusterInfo

MOST_GROUPS: Final = 200
"""Consumer groups that are asked about: each costs two requests."""
GROUPS_AT_ONCE: Final = 16
SYSTEM_GROUPS: Final = (
    TOOLS_GROUP,
    "CID_ONSAPI_",
    "CID_ONS-HTTP-PROXY",
    "CID_RMQ_SYS_",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_",
)
"""How the names begin of groups that every broker has, and of which nobody consumes."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What one broker says: of 28, of 26 as text (None: refused) and of 907 (None: not known there)."""

    at: float
    error: str | None = None
    runtime: Mapping[str, Any]
    config: bytes | None = None
    ha: Mapping[str, Any] | None = None


class Survey:
    """Questions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._admin = Admin(session)

    async def name_servers(self) -> dict[str, ClusterInfo | ClientError]:
        """What each says, or why it doesn't."""
        servers = sorted(self._session.routes.servers)
        return dict(zip(servers, await gather(map(self._members, servers)), strict=True))

    async def _members(self, server: str) -> ClusterInfo | ClientError:
        try:
            answer = await self._session.ask(server, RequestCode.GET_BROKER_CLUSTER_INFO)
            return decoded(server, answer, ClusterInfo)
        except ClientError as error:
            return error

    async def brokers(self, groups: Iterable[BrokerData]) -> dict[tuple[str, int], Words]:
        """What each broker of these groups says, by group and id."""
        found: dict[tuple[str, int], Words] = {}
        everybody = [
            (group.broker_name, number, address)
            for group in groups
            for number, address in sorted(group.broker_addrs.items())
        ]
        for masters in (False, True):
            asked = [each for each in everybody if (each[1] == MASTER_ID) is masters]
            said = await gather(self.broker(address) for _, _, address in asked)
            found |= {(name, number): words for (name, number, _), words in zip(asked, said, strict=True)}
        return dict(sorted(found.items()))

    async def broker(self, address: str) -> Words:
        """What one says."""
        try:
            config, ha = Task(self._config(address)), Task(self._ha(address))
            answer = await self._session.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            runtime = decoded(address, answer, RuntimeInfo).table
            words = Words(
                at=self._session.driver.seconds(), runtime=runtime, config=await config, ha=await ha
            )
        except ClientError as error:
            return Words(at=self._session.driver.seconds(), error=str(error), runtime={})
        return words

    async def _config(self, address: str) -> bytes | None:
        try:
            return bytes((await self._session.ask(address, RequestCode.GET_BROKER_CONFIG)).body)
        except Refused:
            return None

    async def _ha(self, address: str) -> dict[str, Any] | None:
        answer = await self._session.call(address, RequestCode.GET_BROKER_HA_STATUS)
        if answer.code != ResponseCode.SUCCESS:
            return None
        try:
            return decoded(address, answer, dict[str, Any])
        except BadAnswer:
            return None

    # ---- consumer groups

    async def group_names(self) -> list[str]:
        """All but the system's. Raises ClientError."""
        return [each for each in await self._admin.groups() if not each.startswith(SYSTEM_GROUPS)]

    async def progress(self, names: Sequence[str]) -> dict[str, list[QueueProgress] | ClientError]:
        """Of these groups: by queue, or why it isn't known."""
        found: dict[str, list[QueueProgress] | ClientError] = {}
        for begin in range(0, len(names), GROUPS_AT_ONCE):
            some = names[begin : begin + GROUPS_AT_ONCE]
            found |= zip(some, await gather(map(self._progress, some)), strict=True)
        return found

    async def _progress(self, group: str) -> list[QueueProgress] | ClientError:
        try:
            return await self._admin.progress(group)
        except ClientError as error:
            return error

    async def groups(self) -> tuple[dict[str, int], int]:
        """Messages that each is behind, and how many weren't asked, being more than MOST_GROUPS. Those without any
        progress aren't in it."""
        try:
            names = await self.group_names()
        except ClientError:
            return {}, 0
        told = await self.progress(names[:MOST_GROUPS])
        found = {
            name: sum(max(0, each.lag) for each in queues)
            for name, queues in told.items()
            if not isinstance(queues, ClientError) and queues
        }
        return found, max(0, len(names) - MOST_GROUPS)

    async def members(self, group: str) -> int | None:
        """How many are connected."""
        try:
            return len(await self._admin.members(group))
        except ClientError:
            return None
