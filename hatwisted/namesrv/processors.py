"""The name server's requests: header and body in, a call on the table, the answer out.

Every handler is one entry of `_HANDLERS`. What a peer gets wrong (a missing field, a body that can't be read)
is answered with code 1 and a remark; requests that have no entry are refused with code 3 by the server, where
RocketMQ 4.9.7 lets the caller run into its timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.config.changing import NAMESRV_FIXED, NAMESRV_PATHS
from hatwisted.config.errors import ConfigError
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import NamesrvConfig
from hatwisted.namesrv.kvconfig import ORDER_TOPIC_CONFIG, KvConfig, TooManySettings
from hatwisted.namesrv.largeregistrations import LargeRegistrations, TooManyRegistrations
from hatwisted.namesrv.members import Member, Source
from hatwisted.namesrv.routeinfo import RouteTable
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.steps import TooMuchWork
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.networks import counted_as
from hatwisted.wire.registerbody import at_once, decoding_register_body, is_small
from hatwisted.wire.registration import (
    UNIT,
    UNIT_SUBSCRIPTION,
    BadRegistration,
    DataVersion,
    MemberGroup,
    TopicRoute,
    decode_request,
    encode_body,
)
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import (
    BadRequestField,
    RegisterBrokerHeader,
    parse_register_broker,
    text_field,
)

_Answer = RemotingCommand | Deferred[RemotingCommand]
_MISTAKES = (BadRequestField, BadRegistration, TooManySettings, ConfigError)
_BUSY = (TooManyRegistrations, TooMuchWork)


class NameServerProcessors:
    """Answers what brokers, clients and operators ask.

    - routes: the brokers' registrations
    - settings: the operators' key-value pairs
    - config: shown and changed by operators; of its keys orderMessageEnable (add `orderTopicConf` to routes) has
      effect at once
    - written: fires when both are in their files, with None, or with a remark about what isn't
    - large: registrations that are entered in steps
    """

    _log = Logger()

    def __init__(
        self,
        routes: RouteTable,
        settings: KvConfig,
        config: LiveConfig[NamesrvConfig],
        written: Callable[[], Deferred[str | None]],
        large: LargeRegistrations,
    ) -> None:
        self._routes = routes
        self._settings = settings
        self._config = config
        self._written = written
        self._large = large
        self.bad_total = 0
        """Requests that couldn't be read, were for more than there may be, or about somebody else's broker."""

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        for code, handler in _HANDLERS.items():
            table.register(code, self._guarded(handler))

    def _guarded(self, handler: _Handler) -> Callable[[RemotingConnection, RemotingCommand], _Answer]:
        def answer(connection: RemotingConnection, request: RemotingCommand) -> _Answer:
            try:
                return handler(self, connection, request)
            except _MISTAKES:
                return self._refused(Failure(), connection, request)

        return answer

    def _refused(
        self, failure: Failure, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand:
        failure.trap(*_MISTAKES, *_BUSY)
        self.bad_total += 1
        self._log.warn(
            "request {code} of {peer}: {error}",
            code=request.code,
            peer=connection.peer,
            error=failure.value,
        )
        code = ResponseCode.SYSTEM_BUSY if failure.check(*_BUSY) else ResponseCode.SYSTEM_ERROR
        return response(request, code, str(failure.value))

    # ---- brokers

    def register_broker(self, connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        header = parse_register_broker(request.ext)
        connection.on_close(self._routes.closed)  # a broker lives on its connection
        registering = self._registering(connection, request, header)
        if is_small(request.body) and not self._large.has(connection):
            return at_once(registering)
        connection.on_close(self._large.forget)
        entered = self._large.enter(connection, len(request.body), registering)
        return entered.addErrback(self._refused, connection, request)

    def _registering(
        self, connection: RemotingConnection, request: RemotingCommand, header: RegisterBrokerHeader
    ) -> Generator[None, None, RemotingCommand]:
        body = yield from decoding_register_body(
            request.body, compressed=header.compressed, version=request.version, checksum=header.body_crc32
        )
        table = body.topic_config_serialize_wrapper
        member = Member(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            header.ha_server_addr,
        )
        topics, version, source = table.topic_config_table, table.data_version, _source(connection)
        master = yield from self._routes.register(member, topics, version, source, body.filter_server_list)
        ext = {} if master is None else {"haServerAddr": master.ha_address, "masterAddr": master.address}
        ordered = self._settings.namespace(ORDER_TOPIC_CONFIG)
        return response(request, ext=ext, body=b"" if ordered is None else _table(ordered))

    def unregister_broker(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        header = parse_register_broker(request.ext)
        broker = header.broker_name, header.broker_id, header.broker_addr
        if not self._routes.unregister(*broker, _source(connection)):
            self.bad_total += 1
            remark = f"{header.broker_addr} isn't of {connection.address}, and unregisters itself"
            return response(request, ResponseCode.NO_PERMISSION, remark)
        return response(request)

    def query_data_version(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Who hasn't registered the broker from there has to, before the broker lives on his connection."""
        address = text_field(request.ext, "brokerAddr")
        changed = self._routes.changed(address, decode_request(request.body, DataVersion))
        changed = changed or not self._routes.renew(address, _source(connection))
        version = self._routes.version(address)
        body = b"" if version is None else encode_body(version)
        return response(request, ext={"changed": "true" if changed else "false"}, body=body)

    def broker_heartbeat(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """5.x between registrations, if configured to."""
        self._routes.renew(text_field(request.ext, "brokerAddr"), _source(connection))
        return response(request)

    def register_topic(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        route = decode_request(request.body, TopicRoute)
        host = _source(connection).host
        self._routes.register_topic(text_field(request.ext, "topic"), route.queue_datas, host)
        return response(request)

    def member_group(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        group = self._routes.group(text_field(request.ext, "brokerName"))
        return response(request, body=encode_body(MemberGroup(broker_member_group=group or UNSET)))

    # ---- clients

    def route(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        topic = text_field(request.ext, "topic")
        route = self._routes.route(topic)
        if route is None:
            remark = f"No topic route info in name server for the topic: {topic}"
            return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        if self._config.config.order_message_enable:
            order = self._settings.get(ORDER_TOPIC_CONFIG, topic)
            route.order_topic_conf = UNSET if order is None else order
        return response(request, body=encode_body(route))

    def cluster_info(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=encode_body(self._routes.cluster_info()))

    def all_topics(self, connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        return self._listed(connection, request, self._routes.lists.every(connection))

    def topics_of_cluster(self, connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        cluster = text_field(request.ext, "cluster")
        return self._listed(connection, request, self._routes.lists.of_cluster(connection, cluster))

    def _listed(
        self, connection: RemotingConnection, request: RemotingCommand, made: Deferred[bytes]
    ) -> Deferred[RemotingCommand]:
        """A list of topics as the answer."""
        connection.on_close(self._routes.lists.forget)
        answered = made.addCallback(lambda body: response(request, body=body))
        return answered.addErrback(self._refused, connection, request)

    def system_topics(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """Topics named like a cluster or a broker group, and the address of some broker."""
        info = self._routes.cluster_info()
        names = list(dict.fromkeys([*info.cluster_addr_table, *info.broker_addr_table]))
        addresses = [
            address for group in info.broker_addr_table.values() for address in group.broker_addrs.values()
        ]
        return response(request, body=_topic_list(names, addresses[0] if addresses else None))

    def unit_topics(self, connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        return self._listed(connection, request, self._routes.lists.with_flags(connection, UNIT))

    def unit_subscribed_topics(self, connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        made = self._routes.lists.with_flags(connection, UNIT_SUBSCRIPTION)
        return self._listed(connection, request, made)

    def unit_subscribed_plain_topics(
        self, connection: RemotingConnection, request: RemotingCommand
    ) -> _Answer:
        made = self._routes.lists.with_flags(connection, UNIT_SUBSCRIPTION, UNIT)
        return self._listed(connection, request, made)

    # ---- operators

    def wipe_write_permission(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand:
        group = text_field(request.ext, "brokerName")
        count = self._routes.wipe_write_permission(group)
        return response(request, ext={"wipeTopicCount": str(count)})

    def add_write_permission(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand:
        group = text_field(request.ext, "brokerName")
        count = self._routes.add_write_permission(group)
        return response(request, ext={"addTopicCount": str(count)})

    def delete_topic(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        topic, cluster = text_field(request.ext, "topic"), request.ext.get("clusterName")
        self._routes.delete_topic(topic, cluster)
        return response(request)

    def put_setting(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        ext = request.ext
        self._settings.put(text_field(ext, "namespace"), text_field(ext, "key"), text_field(ext, "value"))
        return self._confirmed(request)

    def _confirmed(self, request: RemotingCommand) -> Deferred[RemotingCommand]:
        """The answer to a change, once it outlives this process."""
        return self._written().addCallback(lambda remark: response(request, remark=remark))

    def get_setting(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        namespace, key = text_field(request.ext, "namespace"), text_field(request.ext, "key")
        value = self._settings.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            return response(request, ResponseCode.QUERY_NOT_FOUND, remark)
        return response(request, ext={"value": value})

    def delete_setting(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        self._settings.delete(text_field(request.ext, "namespace"), text_field(request.ext, "key"))
        return self._confirmed(request)

    def settings_of_namespace(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand:
        name = text_field(request.ext, "namespace")
        values = self._settings.namespace(name)
        if values is None:
            return response(request, ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {name}")
        return response(request, body=_table(values))

    def show_config(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        return response(request, body=self._config.text())

    def update_config(self, _connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        """All of the values or, when one is wrong, none."""
        changes = self._config.parse(request.body)
        if not NAMESRV_PATHS.isdisjoint(changes):
            return response(request, ResponseCode.NO_PERMISSION, "Can not update config path")
        if any(key.startswith("tls.") or key in NAMESRV_FIXED for key in changes):
            return response(
                request, ResponseCode.NO_PERMISSION, "Can not update TLS properties and allow lists"
            )
        ignored = self._config.update(changes)
        if ignored:
            self._log.info(
                "changes of the configuration without effect: {ignored}", ignored=", ".join(ignored)
            )
        return self._confirmed(request)


def _source(connection: RemotingConnection) -> Source:
    return Source(connection, counted_as(connection.address))


def _table(values: dict[str, str]) -> bytes:
    return fastjson.dumps_compact({"table": values})


def _topic_list(topics: list[str], broker_address: str | None = None) -> bytes:
    content: dict[str, object] = {"topicList": topics}
    if broker_address is not None:
        content["brokerAddr"] = broker_address
    return fastjson.dumps_compact(content)


_Handler = Callable[[NameServerProcessors, RemotingConnection, RemotingCommand], _Answer]

_HANDLERS: dict[RequestCode, _Handler] = {
    RequestCode.PUT_KV_CONFIG: NameServerProcessors.put_setting,
    RequestCode.GET_KV_CONFIG: NameServerProcessors.get_setting,
    RequestCode.DELETE_KV_CONFIG: NameServerProcessors.delete_setting,
    RequestCode.REGISTER_BROKER: NameServerProcessors.register_broker,
    RequestCode.UNREGISTER_BROKER: NameServerProcessors.unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: NameServerProcessors.route,
    RequestCode.GET_BROKER_CLUSTER_INFO: NameServerProcessors.cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: NameServerProcessors.wipe_write_permission,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: NameServerProcessors.all_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: NameServerProcessors.delete_topic,
    RequestCode.GET_KVLIST_BY_NAMESPACE: NameServerProcessors.settings_of_namespace,
    RequestCode.GET_TOPICS_BY_CLUSTER: NameServerProcessors.topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: NameServerProcessors.system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: NameServerProcessors.unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: NameServerProcessors.unit_subscribed_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: NameServerProcessors.unit_subscribed_plain_topics,
    RequestCode.UPDATE_NAMESRV_CONFIG: NameServerProcessors.update_config,
    RequestCode.GET_NAMESRV_CONFIG: NameServerProcessors.show_config,
    RequestCode.QUERY_DATA_VERSION: NameServerProcessors.query_data_version,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: NameServerProcessors.register_topic,
    RequestCode.GET_BROKER_MEMBER_GROUP: NameServerProcessors.member_group,
    RequestCode.BROKER_HEARTBEAT: NameServerProcessors.broker_heartbeat,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: NameServerProcessors.add_write_permission,
}
