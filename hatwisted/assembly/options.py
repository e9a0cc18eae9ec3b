"""What a broker's configuration means to each room: its options, times in seconds, sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable

from hatwisted.broker.node.registration import BrokerIdentity
from hatwisted.broker.node.slavesync import SyncOptions
from hatwisted.broker.pull.pullmessage import PullOptions
from hatwisted.broker.topic.topicconfig import FirstTopics
from hatwisted.config.schema import BrokerConfig, BrokerRole, FlushDiskType
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.sockets import SocketSizes
from hatwisted.logcodec.delaylevel import parse_delay_levels
from hatwisted.store.messagestore import StoreOptions
from hatwisted.store.retention import FullDisk, RetentionPolicy


def own_address(config: BrokerConfig) -> str:
    """ "host:port" by which clients, slaves and name servers know this broker."""
    return f"{config.broker_ip1}:{config.listen_port}"


def identity(config: BrokerConfig) -> BrokerIdentity:
    """Who registers with the name servers."""
    return BrokerIdentity(
        cluster=config.broker_cluster_name,
        name=config.broker_name,
        broker_id=config.broker_id,
        address=own_address(config),
        ha_address=f"{config.broker_ip2}:{config.ha_listen_port}",
    )


def sync_options(config: BrokerConfig) -> SyncOptions:
    """How a slave asks for its master's tables."""
    return SyncOptions(
        own_address=own_address(config),
        broker_id=config.broker_id,
        first_delay=config.slave_sync_first_delay / 1000,
        interval=config.slave_sync_interval / 1000,
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
    config: BrokerConfig,
    store_host: bytes,
    memory_bytes: int,
    retention: Callable[[], RetentionPolicy],
    full_disk: Callable[[], FullDisk],
) -> StoreOptions:
    """What a message store is made with.

    - store_host: address and port that brand every record
    - memory_bytes: of this machine
    - retention, full_disk: see StoreOptions
    """
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
        retention=retention,
        memory_bytes=memory_bytes,
        full_disk=full_disk,
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


def pull_options(config: BrokerConfig, memory_bytes: int) -> PullOptions:
    """memory_bytes: as for `store_options`."""
    return PullOptions(
        slave=config.broker_role is BrokerRole.SLAVE,
        broker_permission=config.broker_permission,
        slave_read_enable=config.slave_read_enable,
        long_polling_enable=config.long_polling_enable,
        short_polling_time_mills=config.short_polling_time_mills,
        slow_distance=memory_bytes * config.access_message_in_memory_max_ratio // 100,
    )


def master_settings(config: BrokerConfig) -> MasterSettings:
    """The accept side of the HA link."""
    return MasterSettings(
        sync=config.broker_role is BrokerRole.SYNC_MASTER,
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


def slave_settings(config: BrokerConfig) -> SlaveSettings:
    """The dialling side of the HA link."""
    return SlaveSettings(
        heartbeat_interval=config.ha_send_heartbeat_interval / 1000,
        housekeeping_interval=config.ha_housekeeping_interval / 1000,
        ack=config.ha_ack,
        first_sync=config.ha_first_sync,
        sockets=SocketSizes(config.client_socket_snd_buf_size, config.client_socket_rcv_buf_size),
    )
