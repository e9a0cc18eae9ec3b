"""A broker put together from its configuration.

Ports are claimed here, before the process forks, so that one in use is told on the operator's terminal; all
else that can fail does so when the node starts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial

from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.assembly.options import (
    first_topics,
    identity,
    master_settings,
    pull_options,
    retention_policy,
    slave_settings,
    store_options,
    sync_options,
)
from hatwisted.assembly.parts import Parts
from hatwisted.assembly.ports import claim, interface_of
from hatwisted.broker.filter.consumerfilter import ConsumerFilterTable
from hatwisted.broker.node.brokernode import BrokerNode, NodeParts
from hatwisted.broker.node.masternode import MasterNode
from hatwisted.broker.node.registration import KnownMaster, Registration
from hatwisted.broker.node.slavenode import SlaveNode
from hatwisted.broker.tables import BrokerTables
from hatwisted.config.errors import SettingError
from hatwisted.config.live import REQUEST, LiveConfig
from hatwisted.config.load import Loaded, Source
from hatwisted.config.roles import as_master, as_slave
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.interfaces import LogDiffers, MasterRange
from hatwisted.ha.master import HAService
from hatwisted.ha.slave import CONNECT_TIMEOUT, HAClientService
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.interfaces import IConnecting, Listen
from hatwisted.store.configfile import ConfigFile
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.retention import FOR_A_MASTER, FOR_A_SLAVE
from hatwisted.store.worker import DEFAULT_THREADS as STORE_THREADS
from hatwisted.wire.hostport import HostPort


def build_broker(config: BrokerConfig, parts: Parts) -> BrokerNode:
    """A broker of the role that `config` gives it, ports claimed, nothing started. Raises SettingError."""
    slave = config.broker_role is BrokerRole.SLAVE
    node = _slave(config, parts) if slave else _master(config, parts)
    node.parts.config.on_change(partial(_retune, node, parts.memory_bytes))
    return node


def _master(config: BrokerConfig, parts: Parts) -> BrokerNode:
    sync = config.broker_role is BrokerRole.SYNC_MASTER
    return MasterNode(_node_parts(config, parts), config.sync_flush_timeout / 1000, sync)


def _slave(config: BrokerConfig, parts: Parts) -> BrokerNode:
    make_ha_client = partial(_ha_client, config, parts)
    return SlaveNode(
        _node_parts(config, parts), make_ha_client, sync_options(config), config.ha_master_address
    )


def _retune(node: BrokerNode, memory_bytes: int, config: BrokerConfig) -> None:
    """What takes effect at once of a configuration changed at run time (`brokerconfig.EFFECTIVE`)."""
    node.pull.options = pull_options(config, memory_bytes)
    node.parts.tables.topics.auto_create = config.auto_create_topic_enable
    node.parts.tables.groups.auto_create = config.auto_create_subscription_group
    node.registration.permit(config.broker_permission)


def _node_parts(config: BrokerConfig, parts: Parts) -> NodeParts:
    interface = interface_of(config.bind_address)
    claim(parts.listening, config.listen_port, interface)
    if config.vip_listen_enable:
        claim(parts.listening, config.vip_listen_port, interface, " (listenPort - 2)")
    claim(parts.listening, config.ha_listen_port, interface, " (listenPort + 1, for slaves)")
    clock, fs = parts.clock, parts.file_system
    worker, flush_worker = parts.make_worker("store", STORE_THREADS), parts.make_worker("flush", 1)
    client = RemotingClient(parts.connecting, clock)
    tables = BrokerTables(
        clock,
        fs,
        worker,
        config.store_path_root_dir,
        first_topics(config),
        auto_create_group=config.auto_create_subscription_group,
        slave=config.broker_role is BrokerRole.SLAVE,
        filters=ConsumerFilterTable(
            clock,
            enabled=config.enable_property_filter,
            support_retry=config.filter_support_retry,
            keep=config.filter_data_clean_time_span,
        ),
        offset_interval=config.flush_consumer_offset_interval / 1000,
        delay_interval=config.flush_delay_offset_interval / 1000,
    )
    live = _live_config(config, fs, worker, tables)
    full_disk = FOR_A_SLAVE if config.broker_role is BrokerRole.SLAVE else FOR_A_MASTER
    store_host = HostPort(_packed_address(config.broker_ip1, parts), config.listen_port).pack()

    def listen(port: int, factory: IProtocolFactory) -> IListeningPort:
        return parts.listening.listen(port, factory, config.server_socket_backlog, interface)

    return NodeParts(
        clock=clock,
        store=MessageStore(
            store_options(
                config, store_host, parts.memory_bytes, live.derived(retention_policy), lambda: full_disk
            ),
            clock,
            fs,
            worker,
            flush_worker,
        ),
        tables=tables,
        client=client,
        workers=(worker, flush_worker),
        listen_remoting=partial(listen, config.listen_port),
        listen_vip=partial(listen, config.vip_listen_port) if config.vip_listen_enable else None,
        make_ha=partial(_ha_service, config, parts, partial(listen, config.ha_listen_port)),
        make_registration=partial(_registration, config, parts, client, tables),
        pull_options=pull_options(config, parts.memory_bytes),
        config=live,
        check_config=partial(_check_config, config.broker_role),
        broker_name=config.broker_name,
        cluster=config.broker_cluster_name,
        store_host=store_host,
    )


def _live_config(
    config: BrokerConfig, fs: IFileSystem, worker: IWorker, tables: BrokerTables
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


def _packed_address(host: str, parts: Parts) -> bytes:
    """brokerIP1 as records carry it; a host name is resolved once, here."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        pass
    try:
        return parts.resolve(host)
    except OSError as error:
        raise SettingError("brokerIP1", f"{host} has no address: {error.strerror or error}") from None


def _ha_service(config: BrokerConfig, parts: Parts, listen: Listen, store: MessageStore) -> HAService:
    group_transfer = GroupTransferService(parts.clock, config.slave_wait / 1000)
    return HAService(store.log, parts.clock, listen, group_transfer, master_settings(config))


def _ha_client(
    config: BrokerConfig,
    parts: Parts,
    store: MessageStore,
    master_range: MasterRange,
    log_differs: LogDiffers,
) -> HAClientService:
    connecting: IConnecting = parts.connecting
    return HAClientService(
        store.log,
        parts.clock,
        lambda host, port: connecting.endpoint(host, port, CONNECT_TIMEOUT),
        parts.random,
        slave_settings(config),
        master_range=master_range,
        log_differs=log_differs,
        master_address=config.ha_master_address,
        flush_now=store.flusher.flush_now,
    )


def _registration(
    config: BrokerConfig,
    parts: Parts,
    client: RemotingClient,
    tables: BrokerTables,
    on_master: Callable[[KnownMaster], None],
) -> Registration:
    return Registration(
        client,
        parts.clock,
        tables.topics,
        identity(config),
        config.name_servers,
        period=config.register_name_server_period / 1000,
        timeout=config.register_broker_timeout_mills / 1000,
        compressed=config.compressed_register,
        always=config.force_register,
        permission=config.broker_permission,
        on_master=on_master,
    )
