"""A group's members, and this one's share of the queues: everybody asks the same questions and computes alike."""

from __future__ import annotations

from collections.abc import Container, Iterator

from hatwisted.clientcore.allocation import allocate
from hatwisted.clientcore.answers import MemberList, decoded
from hatwisted.clientcore.errors import BadAnswer, CallFailed, ClientError
from hatwisted.clientcore.routes import readable_queues
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.subscription import Subscription
from hatwisted.clientcore.tasks import gather
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import SQL92
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID, TopicRoute


class Membership:
    """Who else is in the group.

    - session: asks the brokers
    - group: which
    - broadcasting: every member reads every queue
    - only: of these; None: of all
    """

    def __init__(
        self, session: Session, group: str, broadcasting: bool, only: Container[MessageQueue] | None = None
    ) -> None:
        self._session = session
        self._group = group
        self._broadcasting = broadcasting
        self._only = only

    async def check_expression(self, subscription: Subscription) -> None:
        """Refused if a broker of the topic doesn't take an SQL92 expression."""
        route = await self._session.routes.route(subscription.topic)
        if subscription.kind != SQL92 or route is None:
            return
        body = fastjson.dumps_compact(
            {
                "clientId": self._session.client_id,
                "group": self._group,
                "subscriptionData": subscription.entry(),
            }
        )
        address = next(_addresses(route), None)
        if address is not None:
            await self._session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=body)

    async def share(self, subscription: Subscription) -> list[MessageQueue] | None:
        """This member's queues of a topic; None if that isn't known now."""
        route = await self._session.routes.route(subscription.topic)
        if route is None:
            return None
        queues = readable_queues(subscription.topic, route)
        if self._broadcasting:
            return [each for each in queues if self._only is None or each in self._only]
        me = self._session.client_id
        members = await self._members(route)
        if me not in members:
            # A broker that has just started: it learns who's here before anybody gives up queues.
            await self._session.heartbeat()
            members = await self._members(route)
        return allocate(queues, members, me) if me in members else None

    async def _members(self, route: TopicRoute) -> set[str]:
        """Who any broker of the topic has heard of. One alone may have just started: by its word the first member
        to ask would take everything, beside those who still read. Fails if none can be asked."""
        answers = await gather(self._members_at(address) for address in _addresses(route))
        members = [each for each in answers if not isinstance(each, ClientError)]
        if not members:
            failures = (each for each in answers if isinstance(each, ClientError))
            raise next(failures, ClientError("no broker to ask for the group's members"))
        return set().union(*members)

    async def _members_at(self, address: str) -> set[str] | CallFailed | BadAnswer:
        try:
            answer = await self._session.call(
                address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group}
            )
            if answer.code != ResponseCode.SUCCESS:
                return set()
            return set(decoded(address, answer, MemberList).consumer_id_list or [])
        except (CallFailed, BadAnswer) as error:
            return error


def _addresses(route: TopicRoute) -> Iterator[str]:
    """All brokers of a topic, masters first."""
    found = [(number, each) for group in route.broker_datas for number, each in group.broker_addrs.items()]
    return (address for _, address in sorted(found, key=lambda each: each[0] != MASTER_ID))
