"""Single messages, and single brokers, as operators ask for them.

A message is known by its place in the log (the id that a broker gave it), by its place in a queue, or by what its
producer named it: its unique id and its keys, which brokers find by their index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hatwisted.clientcore.errors import BadSetting, NoRoute, Refused
from hatwisted.clientcore.message import ReceivedMessage, decode_records, received
from hatwisted.clientcore.offsets import broker_address
from hatwisted.clientcore.pullprogress import PullTerms, pull_fields
from hatwisted.clientcore.routes import readable_queues
from hatwisted.clientcore.session import Session
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.consumerdata import ALL_TAGS, TAG, TOOLS_GROUP
from hatwisted.wire.messageid import BadMessageId, decode_message_id
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import BrokerData
from hatwisted.wire.requestheader import UNIQUE_KEY_QUERY

LOOKUP_TIMEOUT: Final = 10.0
"""Seconds for one answer: an index may be on a slow disk."""
MOST_FOUND: Final = 32
"""Messages asked for of each broker by one key."""
LATEST_TIME: Final = (1 << 63) - 1


class Lookups:
    """What `Admin` knows of single messages and brokers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # ---- messages

    async def message_by_id(self, message_id: str) -> ReceivedMessage:
        """The message at the place in a log that its id names (`offset_id`). BadSetting for what is no such id,
        Refused if there is none."""
        try:
            host, offset = decode_message_id(message_id)
        except BadMessageId as error:
            raise BadSetting(str(error)) from None
        code, fields = RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset}
        answer = await self._session.ask(str(host), code, fields, timeout=LOOKUP_TIMEOUT)
        name = answer.ext.get("brokerName", str(host))
        (record,) = decode_records(answer.body)
        return received(record, name)

    async def messages_by_key(self, topic: str, key: str, *, unique: bool = False) -> list[ReceivedMessage]:
        """Messages of a topic with this key, by the indexes of its brokers; the newest ones of each.

        - topic: theirs
        - key: one of their keys
        - unique: it's their producer's id instead
        """
        found: list[ReceivedMessage] = []
        fields: dict[str, object] = {
            "topic": topic,
            "key": key,
            "maxNum": MOST_FOUND,
            "beginTimestamp": 0,
            "endTimestamp": LATEST_TIME,
            UNIQUE_KEY_QUERY: unique,
        }
        for group, address in _serving(await self._groups_of(topic)):
            answer = await self._session.call(
                address, RequestCode.QUERY_MESSAGE, fields, timeout=LOOKUP_TIMEOUT
            )
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                continue
            if answer.code != ResponseCode.SUCCESS:
                raise Refused.of(address, answer)
            messages = [received(record, group.broker_name) for record in decode_records(answer.body)]
            # An index knows keys by their hash alone.
            found += [each for each in messages if (each.message_id == key if unique else key in each.keys)]
        return sorted(found, key=lambda each: each.store_timestamp)

    async def messages_at(self, topic: str, queue_id: int, offset: int) -> list[ReceivedMessage]:
        """The message at an offset of a queue, of each broker that has one there.

        - topic: of the queue
        - queue_id: which
        - offset: in the queue
        """
        route = await self._session.routes.route(topic, fresh=True)
        if route is None:
            raise NoRoute(topic, "the name servers don't know it")
        found = []
        for queue in readable_queues(topic, route):
            if queue.queue_id == queue_id:
                found += await self._message_at(queue, offset)
        return found

    async def _message_at(self, queue: MessageQueue, offset: int) -> list[ReceivedMessage]:
        fields = pull_fields(
            TOOLS_GROUP, queue, offset, 1, PullTerms(expression=ALL_TAGS, expression_type=TAG)
        )
        address = broker_address(self._session, queue)
        answer = await self._session.call(address, RequestCode.PULL_MESSAGE, fields, timeout=LOOKUP_TIMEOUT)
        if answer.code in _NOTHING_THERE:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise Refused.of(address, answer)
        messages = [received(record, queue.broker_name) for record in decode_records(answer.body)]
        return [each for each in messages if each.queue_offset == offset]

    async def _groups_of(self, topic: str) -> list[BrokerData]:
        route = await self._session.routes.route(topic, fresh=True)
        if route is None:
            raise NoRoute(topic, "the name servers don't know it")
        return list(route.broker_datas)

    # ---- brokers

    async def broker_config(self, address: str) -> bytes:
        """A broker's configuration, as a properties file."""
        answer = await self._session.ask(address, RequestCode.GET_BROKER_CONFIG, timeout=LOOKUP_TIMEOUT)
        return bytes(answer.body)

    async def set_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change keys of a broker's configuration; fires with its remark, empty if it has none.

        - address: of the broker
        - changes: key to value
        """
        lines = (f"{key}={value.translate(_ESCAPES)}\n" for key, value in changes.items())
        body = "".join(lines).encode()
        code = RequestCode.UPDATE_BROKER_CONFIG
        answer = await self._session.ask(address, code, body=body, timeout=LOOKUP_TIMEOUT)
        return answer.remark or ""

    async def set_writable(self, broker_name: str, *, writable: bool) -> None:
        """Have all name servers give a broker group out as writable, or not: producers follow within 30 s.

        - broker_name: of the group
        - writable: shall messages be sent to it?
        """
        code = RequestCode.ADD_WRITE_PERM_OF_BROKER if writable else RequestCode.WIPE_WRITE_PERM_OF_BROKER
        for server in self._session.routes.servers:
            await self._session.ask(server, code, {"brokerName": broker_name}, timeout=LOOKUP_TIMEOUT)


_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})
"""Of a value in a properties file, as which brokers read a change of their configuration."""
_NOTHING_THERE: Final = frozenset(
    (
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)


def _serving(groups: Iterable[BrokerData]) -> Iterable[tuple[BrokerData, str]]:
    """One broker of each group: its master, or a slave while the master is gone."""
    for group in groups:
        if group.broker_addrs:
            yield group, group.broker_addrs[min(group.broker_addrs)]
