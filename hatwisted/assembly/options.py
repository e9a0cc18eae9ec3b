"""What a broker's configuration means to each room: its options, times in seconds, sizes in bytes."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from hatwisted.assembly.parts import Parts
from hatwisted.broker.filter.consumerfilter import FilterOptions
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.node.registration import RegistrationOptions
from hatwisted.broker.node.slavesync import SyncOptions
from hatwisted.broker.node.topicversions import AskVersion
from hatwisted.broker.pull.pullmessage import PullOptions
from hatwisted.broker.role import Role
from hatwisted.broker.tables import TableOptions
from hatwisted.broker.topic.topicconfig import FirstTopics
from hatwisted.clientcore.credentialfile import parse_credentials
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting
from hatwisted.config.errors import SettingError
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig, FlushDiskType
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.sockets import SocketSizes
from hatwisted.logcodec.delaylevel import parse_delay_levels
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.diskwatermark import FOR_A_MASTER, FOR_A_SLAVE
from hatwisted.store.lifecycle.retention import RetentionPolicy
from hatwisted.store.queue.queuetable import OPEN_QUEUE_FILES
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.networks import allow_list


def identity(config: BrokerConfig, resolve: Callable[[str], bytes]) -> BrokerIdentity:
    """Who the broker is. resolve: as in Parts. Raises SettingError if brokerIP1 has no address."""
    return BrokerIdentity(
        cluster=config.broker_cluster_name,
        name=config.broker_name,
        address=f"{config.broker_ip1}:{config.listen_port}",
        ha_address=f"{config.broker_ip2}:{config.ha_listen_port}",
        store_host=HostPort(_packed_address(config.broker_ip1, resolve), config.listen_port).pack(),
    )


def _packed_address(host: str, resolve: Callable[[str], bytes]) -> bytes:
    """brokerIP1 as records carry it; a host name is resolved once, here."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        pass
    try:
        return resolve(host)
    except OSError as error:
        raise SettingError("brokerIP1", f"{host} has no address: {error.strerror or error}") from None


def own_credentials(config: BrokerConfig, fs: IFileSystem) -> Credentials | None:
    """The account with which it asks others. fs: where its file lies. Raises SettingError."""
    path = config.credentials_file
    if path is None:
        return None
    try:
        return parse_credentials(fs.read(path), path)
    except OSError as error:
        raise SettingError("credentialsFile", f"{path} can't be read: {error.strerror or error}") from None
    except BadSetting as error:
        raise SettingError("credentialsFile", str(error)) from None


def registration(config: BrokerConfig) -> RegistrationOptions:
    """How it registers with the name servers."""
    return RegistrationOptions(
        name_servers=config.name_servers,
        period=config.register_name_server_period / 1000,
        timeout=config.register_broker_timeout_mills / 1000,
        always=config.force_register,
        compressed=config.compressed_register,
        permission=config.broker_permission,
    )


def table_options(live: LiveConfig[BrokerConfig]) -> TableOptions:
    """What its tables are made with."""
    config = live.config
    return TableOptions(
        root=config.store_path_root_dir,
        first=first_topics(config),
        auto_create_topic=live.derived(lambda changed: changed.auto_create_topic_enable),
        auto_create_group=live.derived(lambda changed: changed.auto_create_subscription_group),
        filters=FilterOptions(
            enabled=config.enable_property_filter,
            support_retry=config.filter_support_retry,
            keep=config.filter_data_clean_time_span,
        ),
        offset_interval=config.flush_consumer_offset_interval / 1000,
        delay_interval=config.flush_delay_offset_interval / 1000,
    )


def sync_options(config: BrokerConfig, role: Role, ask_version: AskVersion) -> SyncOptions:
    """How a slave asks for its master's tables.

    - config: its configuration
    - role: its broker id
    - ask_version: asks a name server how new a master's topics are
    """
    return SyncOptions(
        own_address=f"{config.broker_ip1}:{config.listen_port}",
        broker_id=role.broker_id,
        first_delay=config.slave_sync_first_delay / 1000,
        interval=config.slave_sync_interval / 1000,
        ask_version=ask_version,
    )


def first_topics(config: BrokerConfig) -> FirstTopics:
    """What decides the topics of a first start."""
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


def store_options(
    live: LiveConfig[BrokerConfig], identity: BrokerIdentity, role: Role, parts: Parts
) -> StoreOptions:
    """What a broker's message store is made with.

    - live: the configuration, whose changes the store follows where it can
    - identity: who the broker is
    - role: master or slave
    - parts: the node's surroundings
    """
    config = live.config
    return StoreOptions(
        root=config.store_path_root_dir,
        commit_log_path=config.commit_log_path,
        store_host=identity.store_host,
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
        retention=live.derived(retention_policy),
        local_time=parts.local_time,
        memory_bytes=parts.memory_bytes,
        open_queue_files=min(OPEN_QUEUE_FILES, parts.descriptors // 4),
        process_id=parts.process_id,
        full_disk=lambda: FOR_A_SLAVE if role.slave else FOR_A_MASTER,
    )


def retention_policy(config: BrokerConfig) -> RetentionPolicy:
    """When files may go."""
    return RetentionPolicy(
        delete_when=config.delete_when,
        reserved_hours=config.file_reserved_time,
        max_used=config.disk_max_used_space_ratio / 100,
        clean_forcibly=config.clean_file_forcibly_enable,
        interval=config.clean_resource_interval / 1000,
        file_interval=config.delete_commit_log_files_interval / 1000,
    )


def pull_options(config: BrokerConfig, memory_bytes: int, role: Role) -> PullOptions:
    """What pulls are answered with.

    - config: the effective configuration
    - memory_bytes: of this machine, as for `store_options`
    - role: master or slave
    """
    return PullOptions(
        role=role,
        broker_permission=config.broker_permission,
        slave_read_enable=config.slave_read_enable,
        long_polling_enable=config.long_polling_enable,
        short_polling_time_mills=config.short_polling_time_mills,
        slow_distance=memory_bytes * config.access_message_in_memory_max_ratio // 100,
    )


def master_settings(config: BrokerConfig, role: Role) -> MasterSettings:
    """The accept side of the HA link."""
    return MasterSettings(
        sync=lambda: role.sync_master,
        heartbeat_interval=config.ha_send_heartbeat_interval / 1000,
        housekeeping_interval=config.ha_housekeeping_interval / 1000,
        batch_size=config.ha_transfer_batch_size,
        fall_behind_max=config.ha_slave_fallbehind_max,
        max_gap_not_in_sync=config.ha_max_gap_not_in_sync,
        in_sync_replicas=config.in_sync_replicas,
        min_in_sync_replicas=config.min_in_sync_replicas,
        first_sync=config.ha_first_sync,
        identified=config.ha_tls_enable,
        allowed=allow_list(config.ha_allow_list),
        sockets=SocketSizes(config.server_socket_snd_buf_size, config.server_socket_rcv_buf_size),
    )


def slave_settings(config: BrokerConfig) -> SlaveSettings:
    """The dialling side of the HA link."""
    return SlaveSettings(
        heartbeat_interval=config.ha_send_heartbeat_interval / 1000,
        housekeeping_interval=config.ha_housekeeping_interval / 1000,
        ack=config.ha_ack,
        first_sync=config.ha_first_sync,
        sockets=SocketSizes(config.client_socket_snd_buf_size, config.client_socket_rcv_buf_size),
    )
