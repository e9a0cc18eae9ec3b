"""What a change of a name server is about, as it is now: for the audit's before and after."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hatwisted.acl.audittrail import Look, State
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import NamesrvConfig
from hatwisted.namesrv.kvconfig import KvConfig
from hatwisted.namesrv.members import Member
from hatwisted.namesrv.routeinfo import RouteTable
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import parse_register_broker


def audited_states(
    routes: RouteTable, settings: KvConfig, live: LiveConfig[NamesrvConfig]
) -> Mapping[int, State]:
    """Request code -> its state.

    - routes: the brokers' registrations
    - settings: the operators' key-value pairs
    - live: the configuration
    """

    def setting(request: RemotingCommand) -> Look:
        return partial(settings.get, request.ext.get("namespace", ""), request.ext.get("key", ""))

    def route(request: RemotingCommand) -> Look:
        topic = request.ext.get("topic", "")

        def look() -> object:
            found = routes.route(topic)
            return None if found is None else {queues.broker_name: queues for queues in found.queue_datas}

        return look

    def permissions(request: RemotingCommand) -> Look:
        """Permission -> how many of the group's topics have it."""
        return partial(routes.permissions, request.ext.get("brokerName", ""))

    def holders(request: RemotingCommand) -> Look:
        """The living brokers in a broker's place and at its address, and the hosts that have said so."""
        header = parse_register_broker(request.ext)
        member = Member(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)
        return partial(routes.holders, member)

    return {
        RequestCode.REGISTER_BROKER: holders,
        RequestCode.UNREGISTER_BROKER: holders,
        RequestCode.PUT_KV_CONFIG: setting,
        RequestCode.DELETE_KV_CONFIG: setting,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: permissions,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: permissions,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: route,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: route,
        RequestCode.UPDATE_NAMESRV_CONFIG: lambda request: partial(live.asked, request.body),
    }
