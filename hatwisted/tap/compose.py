"""The services put together from a configuration: the one place that knows every room.

Ports are claimed here, before the process forks, so that one in use is told on the operator's terminal; all
else that can fail does so when the services start.
"""

from __future__ import annotations

import ipaddress
import os
import random
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from twisted.application.service import IService
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.broker.filter.consumerfilter import ConsumerFilterTable
from hatwisted.broker.node.brokernode import BrokerNode, NodeParts
from hatwisted.broker.node.masternode import MasterNode
from hatwisted.broker.node.registration import BrokerIdentity, KnownMaster, Registration
from hatwisted.broker.node.slavenode import SlaveNode
from hatwisted.broker.pull.pullmessage import PullOptions
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.topic.topicconfig import FirstTopics
from hatwisted.config.errors import SettingError
from hatwisted.config.live import REQUEST, LiveConfig
from hatwisted.config.load import Loaded, Source
from hatwisted.config.roles import as_master, as_slave
from hatwisted.config.schema import BrokerConfig, BrokerRole, FlushDiskType, NamesrvConfig
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.interfaces import LogDiffers, MasterRange
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.slave import HAClientService
from hatwisted.ha.sockets import SocketSizes
from hatwisted.logcodec.delaylevel import parse_delay_levels
from hatwisted.namesrv.service import NameServerService
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.interfaces import PortUnavailable
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.store.configfile import ConfigFile
from hatwisted.store.filesystem import PosixFileSystem
from hatwisted.store.messagestore import MessageStore, StoreOptions
from hatwisted.store.retention import RetentionPolicy
from hatwisted.store.worker import ThreadWorker
from hatwisted.tap.embedded import Announcement, claim_name_server_port, stacked
from hatwisted.tap.ports import ClaimedPorts
from hatwisted.wire.hostport import HostPort


def master(config: BrokerConfig, reactor: Any) -> IService:
    """A broker of role ASYNC_MASTER or SYNC_MASTER, with a name server of its own if it is told of none."""
    if config.name_servers or not config.embedded_namesrv:
        return _master(config, reactor)
    ports = ClaimedPorts(reactor)
    interface = _interface(config.bind_address)
    port, warning = claim_name_server_port(ports, interface, config.embedded_namesrv_port)
    # Others reach it by this host's address; this broker doesn't need to.
    own = config.bind_address if interface not in ("", "::") else "127.0.0.1"
    broker = _master(msgspec.structs.replace(config, namesrv_addr=f"{own}:{port}"), reactor)
    settings = NamesrvConfig(
        listen_port=port, kv_config_path=os.path.join(config.store_path_root_dir, "config", "kvConfig.json")
    )
    told = f"{config.broker_ip1 if own == '127.0.0.1' else own}:{port}"
    return stacked(_name_server(ports, reactor, settings, interface), broker, Announcement(told, warning))


def _master(config: BrokerConfig, reactor: Any) -> IService:
    sync = config.broker_role is BrokerRole.SYNC_MASTER
    node = MasterNode(_node_parts(config, reactor), config.sync_flush_timeout / 1000, sync)
    node.parts.config.on_change(partial(_retune, node))
    return node


def slave(config: BrokerConfig, reactor: Any) -> IService:
    """A broker of role SLAVE."""
    parts = _node_parts(config, reactor)
    node = SlaveNode(
        parts, partial(_ha_client, config, reactor), _own_address(config), config.ha_master_address
    )
    parts.config.on_change(partial(_retune, node))
    return node


def _retune(node: BrokerNode, config: BrokerConfig) -> None:
    """What takes effect at once of a configuration changed at run time (`brokerconfig.EFFECTIVE`)."""
    node.pull.options = _pull_options(config)
    node.store.retention.policy = _retention_policy(config)
    node.parts.tables.topics.auto_create = config.auto_create_topic_enable
    node.parts.tables.groups.auto_create = config.auto_create_subscription_group
    node.registration.permit(config.broker_permission)


def namesrv(config: NamesrvConfig, reactor: Any) -> IService:
    """A name server."""
    ports = ClaimedPorts(reactor)
    interface = _interface(config.bind_address)
    _claim(ports, config.listen_port, interface)
    return _name_server(ports, reactor, config, interface)


def _name_server(
    ports: ClaimedPorts, reactor: Any, config: NamesrvConfig, interface: str
) -> NameServerService:
    return NameServerService(
        config,
        reactor,
        PosixFileSystem(),
        ThreadWorker(reactor, threads=1, name="namesrv"),
        partial(ports.listen, config.listen_port, interface=interface),
    )


def _interface(bind_address: str) -> str:
    """Twisted's name for "all addresses" is the empty one."""
    return "" if bind_address == "0.0.0.0" else bind_address


def _claim(ports: ClaimedPorts, port: int, interface: str, role: str = "") -> None:
    try:
        ports.claim(port, interface)
    except PortUnavailable as error:
        raise SettingError(
            "bindAddress" if error.foreign_address else "listenPort", f"{error}{role}"
        ) from None


def _own_address(config: BrokerConfig) -> str:
    return f"{config.broker_ip1}:{config.listen_port}"


def _node_parts(config: BrokerConfig, reactor: Any) -> NodeParts:
    raise_descriptor_limit()
    ports = ClaimedPorts(reactor)
    interface = _interface(config.bind_address)
    _claim(ports, config.listen_port, interface)
    if config.vip_listen_enable:
        _claim(ports, config.vip_listen_port, interface, " (listenPort - 2)")
    _claim(ports, config.ha_listen_port, interface, " (listenPort + 1, for slaves)")
    fs = PosixFileSystem()
    worker = ThreadWorker(reactor, name="store")
    flush_worker = ThreadWorker(reactor, threads=1, name="flush")
    client = RemotingClient(TcpConnecting(reactor), reactor)
    tables = BrokerTables(
        reactor,
        fs,
        worker,
        config.store_path_root_dir,
        _first_topics(config),
        auto_create_group=config.auto_create_subscription_group,
        slave=config.broker_role is BrokerRole.SLAVE,
        filters=ConsumerFilterTable(
            reactor,
            enabled=config.enable_property_filter,
            support_retry=config.filter_support_retry,
            keep=config.filter_data_clean_time_span,
        ),
        offset_interval=config.flush_consumer_offset_interval / 1000,
        delay_interval=config.flush_delay_offset_interval / 1000,
    )
    store_host = HostPort(_packed_address(config.broker_ip1), config.listen_port).pack()

    def listen(port: int, factory: IProtocolFactory) -> IListeningPort:
        return ports.listen(port, factory, config.server_socket_backlog, interface)

    return NodeParts(
        clock=reactor,
        store=MessageStore(_store_options(config, store_host), reactor, fs, worker, flush_worker),
        tables=tables,
        client=client,
        workers=(worker, flush_worker),
        listen_remoting=partial(listen, config.listen_port),
        listen_vip=partial(listen, config.vip_listen_port) if config.vip_listen_enable else None,
        make_ha=partial(_ha_service, config, reactor, partial(listen, config.ha_listen_port)),
        make_registration=partial(_registration, config, reactor, client, tables),
        pull_options=_pull_options(config),
        config=_live_config(config, fs, worker, tables),
        check_config=partial(_check_config, config.broker_role),
        broker_name=config.broker_name,
        cluster=config.broker_cluster_name,
        store_host=store_host,
    )


def _live_config(
    config: BrokerConfig, fs: PosixFileSystem, worker: ThreadWorker, tables: BrokerTables
) -> LiveConfig[BrokerConfig]:
    """The configuration that operators may change; kept in its file, if there is one."""
    live = LiveConfig(config)
    if config.broker_config_path is not None:
        file = ConfigFile(fs, config.broker_config_path, worker, live.file_bytes)
        tables.keep(file, live.take_file)
        live.on_change(lambda _: file.save())
    return live


def _check_config(role: BrokerRole, config: BrokerConfig) -> None:
    check = as_slave if role is BrokerRole.SLAVE else as_master
    check(Loaded(config, [], Source(REQUEST, {})))


def raise_descriptor_limit() -> None:
    """Soft limit up to the hard one: a broker has thousands of queue files and clients."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _packed_address(host: str) -> bytes:
    """brokerIP1 as records carry it; a host name is resolved once, here."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        pass
    try:
        return socket.inet_aton(socket.gethostbyname(host))
    except OSError as error:
        raise SettingError("brokerIP1", f"{host} has no address: {error.strerror or error}") from None


def _first_topics(config: BrokerConfig) -> FirstTopics:
    return FirstTopics(
        broker_cluster_name=config.broker_cluster_name,
        broker_name=config.broker_name,
        auto_create_topic_enable=config.auto_create_topic_enable,
        default_topic_queue_nums=config.default_topic_queue_nums,
        cluster_topic_enable=config.cluster_topic_enable,
        broker_topic_enable=config.broker_topic_enable,
        trace_topic_enable=config.trace_topic_enable,
        msg_trace_topic_name=config.msg_trace_topic_name,
    )


def _store_options(config: BrokerConfig, store_host: bytes) -> StoreOptions:
    return StoreOptions(
        root=config.store_path_root_dir,
        commit_log_path=config.commit_log_path,
        store_host=store_host,
        commit_log_file_size=config.mapped_file_size_commit_log,
        consume_queue_file_size=config.mapped_file_size_consume_queue,
        max_message_size=config.max_message_size,
        index_enable=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_items=config.max_index_num,
        check_crc_on_recover=config.check_crc_on_recover,
        message_index_safe=config.message_index_safe,
        delay_levels=parse_delay_levels(config.message_delay_level),
        sync_flush=config.flush_disk_type is FlushDiskType.SYNC_FLUSH,
        flush_interval=config.flush_interval_commit_log / 1000,
        flush_least_pages=config.flush_commit_log_least_pages,
        flush_thorough_interval=config.flush_commit_log_thorough_interval / 1000,
        retention=_retention_policy(config),
        memory_bytes=memory_bytes(),
        slave=config.broker_role is BrokerRole.SLAVE,
    )


def _retention_policy(config: BrokerConfig) -> RetentionPolicy:
    return RetentionPolicy(
        delete_when=config.delete_when,
        reserved_hours=config.file_reserved_time,
        max_used=config.disk_max_used_space_ratio / 100,
        clean_forcibly=config.clean_file_forcibly_enable,
        interval=config.clean_resource_interval / 1000,
        file_interval=config.delete_commit_log_files_interval / 1000,
    )


def _pull_options(config: BrokerConfig) -> PullOptions:
    return PullOptions(
        slave=config.broker_role is BrokerRole.SLAVE,
        broker_permission=config.broker_permission,
        slave_read_enable=config.slave_read_enable,
        long_polling_enable=config.long_polling_enable,
        short_polling_time_mills=config.short_polling_time_mills,
        slow_distance=memory_bytes() * config.access_message_in_memory_max_ratio // 100,
    )


def _ha_service(
    config: BrokerConfig,
    reactor: Any,
    listen: Callable[[IProtocolFactory], IListeningPort],
    store: MessageStore,
) -> HAService:
    settings = MasterSettings(
        heartbeat_interval=config.ha_send_heartbeat_interval / 1000,
        housekeeping_interval=config.ha_housekeeping_interval / 1000,
        batch_size=config.ha_transfer_batch_size,
        fall_behind_max=config.ha_slave_fallbehind_max,
        max_gap_not_in_sync=config.ha_max_gap_not_in_sync,
        in_sync_replicas=config.in_sync_replicas,
        min_in_sync_replicas=config.min_in_sync_replicas,
        first_sync=config.ha_first_sync,
        sockets=SocketSizes(config.server_socket_snd_buf_size, config.server_socket_rcv_buf_size),
    )
    return HAService(
        store.log, reactor, listen, GroupTransferService(reactor, config.slave_wait / 1000), settings
    )


def _ha_client(
    config: BrokerConfig,
    reactor: Any,
    store: MessageStore,
    master_range: MasterRange,
    log_differs: LogDiffers,
) -> HAClientService:
    settings = SlaveSettings(
        heartbeat_interval=config.ha_send_heartbeat_interval / 1000,
        housekeeping_interval=config.ha_housekeeping_interval / 1000,
        ack=config.ha_ack,
        first_sync=config.ha_first_sync,
        sockets=SocketSizes(config.client_socket_snd_buf_size, config.client_socket_rcv_buf_size),
    )
    return HAClientService(
        store.log,
        reactor,
        partial(HostnameEndpoint, reactor),
        random.Random(),
        settings,
        master_range=master_range,
        log_differs=log_differs,
        master_address=config.ha_master_address,
        flush_now=store.log.flush_now,
    )


def _registration(
    config: BrokerConfig,
    reactor: Any,
    client: RemotingClient,
    tables: BrokerTables,
    on_master: Callable[[KnownMaster], None],
) -> Registration:
    identity = BrokerIdentity(
        cluster=config.broker_cluster_name,
        name=config.broker_name,
        broker_id=config.broker_id,
        address=_own_address(config),
        ha_address=f"{config.broker_ip2}:{config.ha_listen_port}",
    )
    return Registration(
        client,
        reactor,
        tables.topics,
        identity,
        config.name_servers,
        period=config.register_name_server_period / 1000,
        timeout=config.register_broker_timeout_mills / 1000,
        compressed=config.compressed_register,
        always=config.force_register,
        permission=config.broker_permission,
        on_master=on_master,
    )
