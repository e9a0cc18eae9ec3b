"""What a change of a broker is about, as it is now: for the audit's before and after."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from hatwisted.acl.account import ACCESS_KEY, shown_entry
from hatwisted.acl.aclfile import ACCOUNTS, ADDRESSES
from hatwisted.acl.aclfiles import AclFiles
from hatwisted.acl.audittrail import MAX_STATE, Look, State
from hatwisted.broker.admin.progresswalk import at_once, topics_of
from hatwisted.broker.consumer.progressbody import WHOLE_ROW, parse_progress
from hatwisted.broker.tables import BrokerTables
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand

PAIR: Final = 8
"""Characters that a queue, or a topic, takes at least."""


def audited_states(
    tables: BrokerTables, live: LiveConfig[BrokerConfig], acl: AclFiles | None
) -> Mapping[int, State]:
    """Request code -> its state.

    - tables: topics, groups, progress
    - live: the configuration
    - acl: the accounts, of which secrets aren't shown; None: there are none
    """

    def topic(request: RemotingCommand) -> Look:
        return partial(tables.topics.get, request.ext.get("topic", ""))

    def changed_group(request: RemotingCommand) -> Look:
        body = fastjson.loads_request(request.body)
        if not isinstance(body, dict):
            raise ValueError("no group")
        return partial(tables.groups.get, str(body.get("groupName")))

    def deleted_group(request: RemotingCommand) -> Look:
        return partial(tables.groups.get, request.ext.get("groupName", ""))

    def progress(group_field: str) -> State:
        def of_group(request: RemotingCommand) -> Look:
            group, topic = request.ext.get(group_field, ""), request.ext.get("topic", "").strip()

            def look() -> object:
                topics = [topic] if topic else at_once(topics_of(tables.offsets, group))
                # No more of a topic's queues than a line shows.
                return {
                    name: dict(islice(tables.offsets.queues(group, name).items(), MAX_STATE // PAIR))
                    for name in islice(topics, MAX_STATE // PAIR)
                }

            return look

        return of_group

    def reset_progress(request: RemotingCommand) -> Look:
        """Of the queues that a report of progress may take back, and no others: anybody may make one. A row that
        may be deleted is shown by how many queues it has."""
        if b"resetTable" not in request.body and b"\\" not in request.body:
            return dict  # most have none, and are long
        resets = parse_progress(request.body, fastjson.loads_request).reset_table

        def look() -> object:
            ours = tables.offsets.progress().offset_table
            return {
                key: {
                    "queues" if queue == WHOLE_ROW else str(queue): len(ours.get(key, ()))
                    if queue == WHOLE_ROW
                    else ours.get(key, {}).get(queue)
                    for queue in queues
                }
                for key, queues in resets.items()
            }

        return look

    def account(request: RemotingCommand) -> Look:
        key = request.ext.get(ACCESS_KEY)

        def look() -> object:
            found = (entry for entry in _entries(acl) if str(entry.get(ACCESS_KEY)) == key)
            return next(map(shown_entry, found), None)

        return look

    def addresses() -> object:
        return {} if acl is None else {name: each.get(ADDRESSES) for name, each in acl.documents.items()}

    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: topic,
        RequestCode.DELETE_TOPIC_IN_BROKER: topic,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: changed_group,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: deleted_group,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: progress("group"),
        RequestCode.CLONE_GROUP_OFFSET: progress("destGroup"),
        RequestCode.JOIN_CONSUMER_OFFSET: reset_progress,
        RequestCode.UPDATE_BROKER_CONFIG: lambda request: partial(live.asked, request.body),
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: account,
        RequestCode.DELETE_ACL_CONFIG: account,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: lambda _: addresses,
    }


def _entries(acl: AclFiles | None) -> list[Mapping[str, Any]]:
    documents = [] if acl is None else acl.documents.values()
    return [entry for each in documents for entry in each.get(ACCOUNTS) or []]
