"""The configuration of a broker and of a name server: every key with an effect, its default and its range.

One field per key: `haSendHeartbeatInterval` in a file is `ha_send_heartbeat_interval` here (the few keys whose
names differ otherwise are given). Names and defaults are those of RocketMQ 4.9.7's BrokerConfig,
MessageStoreConfig, NettyServerConfig, NettyClientConfig and NamesrvConfig, where no other origin is noted.
Units: times in ms, sizes in bytes, `file_reserved_time` in hours, ratios in percent.

Keys that RocketMQ knows and that have no effect here are listed in `rocketmqkeys`.
"""

from __future__ import annotations

from enum import Enum
from os.path import join
from typing import Annotated

import msgspec

from hatwisted.config.tlskeys import LinkTlsKeys, TlsKeys
from hatwisted.config.values import (
    BYTES,
    DELAY_LEVELS,
    HOST_PORT,
    HOST_PORT_LIST,
    HOURS,
    LONG_MAX,
    MILLISECONDS,
    PATH,
    PORT,
    Bool,
    Choice,
    Count,
    NetworkList,
    Optional,
    Text,
    Whole,
)
from hatwisted.wire.haframe import HaAck, HaFirstSync
from hatwisted.wire.storenames import LOG_FOLDER
from hatwisted.wire.topics import TRACE_TOPIC


class BrokerRole(Enum):
    """Who writes, and whether a put waits for a slave (B03)."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class FlushDiskType(Enum):
    """Whether a put waits for the disk (B04)."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


# The kinds that many fields share: a type, and the rule that parses its text.
Port = Annotated[int, PORT]
Milliseconds = Annotated[int, MILLISECONDS]
Bytes = Annotated[int, BYTES]
Name = Annotated[str, Text()]
Path = Annotated[str, PATH]

# A RocketMQ slave holds header and body of a frame in 4 MiB; a longer one never completes (B26).
MAX_TRANSFER_BATCH = 4 * 1024 * 1024 - 12

# Both neighbours of the listen port are ports too: +1 HA, -2 the "VIP" port (B15).
BROKER_PORT = Whole(3, 65534)

# Tests and small installations use files far below the default of 1 GiB; below this no message fits.
LOG_FILE_SIZE = Whole(1024, unit="bytes")

# Bytes of a record in addition to body, topic and properties, and what must stay free for the blank after it.
RECORD_OVERHEAD = 91 + 8


class BrokerConfig(LinkTlsKeys, frozen=True, kw_only=True, rename="camel"):
    """A broker's effective configuration, master or slave."""

    # -- names and addresses
    broker_cluster_name: Name = "DefaultCluster"
    broker_name: Name = "DEFAULT_BROKER"
    """The host's name if the file doesn't say; likewise addresses and folder, see `host`."""
    broker_id: Annotated[int, Whole(-LONG_MAX - 1, LONG_MAX)] = 0
    broker_role: Annotated[BrokerRole, Choice(BrokerRole)] = BrokerRole.ASYNC_MASTER
    broker_config_path: Annotated[str | None, Optional(PATH)] = None
    """RocketMQ 5.x: the file that run-time changes are written to; that of `--conf` if the file doesn't say."""
    broker_permission: Annotated[int, Whole(0, 7)] = 6
    broker_ip1: Name = msgspec.field(name="brokerIP1", default="127.0.0.1")
    """Address in routes and, as storeHost, in every record."""
    broker_ip2: Name = msgspec.field(name="brokerIP2", default="127.0.0.1")
    """Address that slaves are given to connect to."""
    bind_address: Name = "0.0.0.0"
    """Where to listen, all three ports (RocketMQ 5.x)."""
    listen_port: Annotated[int, BROKER_PORT] = 10911
    namesrv_addr: Annotated[str | None, Optional(HOST_PORT_LIST)] = None
    """`host:port;host:port`; the environment's NAMESRV_ADDR if the file doesn't say."""
    credentials_file: Annotated[str | None, Optional(PATH)] = None
    """Ours: the account that this broker uses towards others (a slave towards its master), as in RocketMQ's
    tools.yml."""

    # -- registration and topics
    register_name_server_period: Milliseconds = 30000
    register_broker_timeout_mills: Milliseconds = 6000
    compressed_register: Bool = False
    force_register: Bool = True
    """Always register in full; with `false`, name servers are asked first whether anything has changed."""
    embedded_namesrv: Bool = True
    """Ours: a master without `namesrv_addr` starts its own name server."""
    embedded_namesrv_port: Annotated[int | None, Optional(PORT)] = None
    """Ours: 9876 if that is free, else any, if the file doesn't say."""
    vip_listen_enable: Bool = True
    """Ours: listen on `vip_listen_port` too. RocketMQ's slaves fetch topics from it, and clients up to 4.4
    send to it."""
    auto_create_topic_enable: Bool = True
    default_topic_queue_nums: Annotated[int, Whole(1)] = 8
    cluster_topic_enable: Bool = True
    broker_topic_enable: Bool = True
    trace_topic_enable: Bool = False
    msg_trace_topic_name: Name = TRACE_TOPIC
    auto_create_subscription_group: Bool = True

    # -- SQL92 filters
    enable_property_filter: Bool = False
    filter_support_retry: Bool = False
    """Filter retries too, by the filter of the topic that they came from."""
    filter_data_clean_time_span: Milliseconds = 24 * 3600 * 1000
    """How long the filters of a group without members are kept."""

    # -- requests
    long_polling_enable: Bool = True
    short_polling_time_mills: Milliseconds = 1000
    slave_read_enable: Bool = False
    max_message_size: Bytes = 4 * 1024 * 1024
    access_message_in_memory_max_ratio: Annotated[int, Whole(0, 100, "percent")] = 40
    message_delay_level: Annotated[str, DELAY_LEVELS] = (
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )

    # -- store
    store_path_root_dir: Path = "store"
    store_path_commit_log: Annotated[str | None, Optional(PATH)] = None
    """`commitlog` below the root if the file doesn't say: see `commit_log_path`."""
    mapped_file_size_commit_log: Annotated[int, LOG_FILE_SIZE] = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: Annotated[int, Whole(20, unit="bytes", step=20)] = 6000000
    message_index_enable: Bool = True
    message_index_safe: Bool = False
    max_hash_slot_num: Annotated[int, Whole(1)] = 5000000
    max_index_num: Annotated[int, Whole(2)] = 20000000
    check_crc_on_recover: Bool = msgspec.field(name="checkCRCOnRecover", default=True)

    # -- flush
    flush_disk_type: Annotated[FlushDiskType, Choice(FlushDiskType)] = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: Milliseconds = 5000
    flush_interval_commit_log: Milliseconds = 500
    flush_commit_log_least_pages: Count = 4
    flush_commit_log_thorough_interval: Milliseconds = 10000

    # -- tables on disk
    flush_consumer_offset_interval: Annotated[int, Whole(1, unit="ms")] = 5000
    flush_delay_offset_interval: Annotated[int, Whole(1, unit="ms")] = 10000

    # -- transactions
    transaction_time_out: Milliseconds = 6000
    transaction_check_max: Count = 15
    transaction_check_interval: Annotated[int, Whole(1, unit="ms")] = 60000

    # -- expiry
    delete_when: Annotated[str, HOURS] = "04"
    file_reserved_time: Annotated[int, Whole(0, unit="hours")] = 72
    clean_resource_interval: Milliseconds = 10000
    delete_commit_log_files_interval: Count = 100
    disk_max_used_space_ratio: Annotated[int, Whole(10, 95, "percent", clamp=True)] = 75
    clean_file_forcibly_enable: Bool = True

    # -- monitoring, all ours
    metrics_port: Annotated[int | None, Optional(PORT)] = None
    """Where Prometheus finds the broker's figures, and others its health; nowhere if the file doesn't say."""
    metrics_address: Annotated[str | None, Optional(Text())] = None
    """Its address; if the file doesn't say, `bind_address` if that is one address, else 127.0.0.1."""
    metrics_topics: Annotated[int, Whole(0, 2000)] = 0
    """Topics that have figures of their own; the others are shown as one."""
    metrics_groups: Annotated[int, Whole(0, 2000)] = 100
    """Topics of consumer groups whose lag is shown, those furthest behind first."""
    dashboard_port: Annotated[int | None, Optional(PORT)] = None
    """Where a browser finds the live page; nowhere if the file doesn't say."""
    dashboard_address: Annotated[str | None, Optional(Text())] = None
    """Its address; 127.0.0.1 if the file doesn't say. Another one needs `dashboard_password_file`."""
    dashboard_password_file: Annotated[str | None, Optional(PATH)] = None
    """A file with one line, `name:password`, that the browser asks for."""

    # -- replication
    ha_master_address: Annotated[str | None, Optional(HOST_PORT)] = None
    ha_allow_list: NetworkList = None
    """Ours: networks from where slaves may connect; from everywhere if the file doesn't say."""
    ha_send_heartbeat_interval: Milliseconds = 5000
    ha_housekeeping_interval: Milliseconds = 20000
    ha_transfer_batch_size: Annotated[int, Whole(1, MAX_TRANSFER_BATCH, "bytes")] = 32768
    ha_slave_fallbehind_max: Bytes = 256 * 1024 * 1024
    slave_timeout: Annotated[int | None, Optional(MILLISECONDS)] = None
    """How long a put waits for slaves; `sync_flush_timeout` if the file doesn't say (B75): see
    `slave_wait`."""
    slave_sync_first_delay: Milliseconds = 3000
    """Ours: from a slave's start to its first copy of its master's tables. RocketMQ's constant."""
    slave_sync_interval: Milliseconds = 10000
    """Ours: between two copies. RocketMQ's constant of 4.x; documents of older versions say 60 s."""
    ha_first_sync: Annotated[HaFirstSync, Choice(HaFirstSync)] = HaFirstSync.LAST_FILE
    """Ours."""
    ha_ack: Annotated[HaAck, Choice(HaAck)] = HaAck.RECEIVED
    """Ours."""
    ha_audit_rate: Count = 2 * 1024 * 1024
    """Ours: bytes a second of its log that a slave compares with its master's; 0: none."""
    in_sync_replicas: Annotated[int | None, Optional(Whole(1))] = None
    """RocketMQ 5.x: copies, the master's included, that a SYNC_MASTER waits for. Not set: two, as in 4.x,
    and not 5.x's default of 1, with which a SYNC_MASTER waits for no slave: see `copies_to_wait_for`."""
    min_in_sync_replicas: Annotated[int, Whole(1)] = 1
    """RocketMQ 5.x: with fewer copies in sync, the master's included, a put is refused before the append."""
    ha_max_gap_not_in_sync: Bytes = 256 * 1024 * 1024
    """RocketMQ 5.x: a slave further behind than this isn't in sync."""

    # -- sockets (0 leaves a buffer to the kernel)
    server_socket_backlog: Annotated[int, Whole(1)] = 1024
    server_socket_snd_buf_size: Count = 0
    server_socket_rcv_buf_size: Count = 0
    client_socket_snd_buf_size: Count = 0
    client_socket_rcv_buf_size: Count = 0

    @property
    def ha_listen_port(self) -> int:
        """Always the port after `listen_port`, whatever the file says (B15)."""
        return self.listen_port + 1

    @property
    def vip_listen_port(self) -> int:
        """RocketMQ's "fast" port for requests that mustn't queue behind sends (B15)."""
        return self.listen_port - 2

    @property
    def commit_log_path(self) -> str:
        """The commit log's folder."""
        return self.store_path_commit_log or join(self.store_path_root_dir, LOG_FOLDER)

    @property
    def slave_wait(self) -> int:
        """ms that a put of a SYNC_MASTER waits for slaves (B75)."""
        return self.sync_flush_timeout if self.slave_timeout is None else self.slave_timeout

    @property
    def copies_to_wait_for(self) -> int:
        """Copies that must hold a put before it is answered PUT_OK, the master's own included."""
        if self.broker_role is not BrokerRole.SYNC_MASTER:
            return 1
        return 2 if self.in_sync_replicas is None else self.in_sync_replicas

    @property
    def name_servers(self) -> list[str]:
        """`host:port` of each name server; empty if there is none."""
        return [part.strip() for part in (self.namesrv_addr or "").split(";") if part.strip()]


class NamesrvConfig(TlsKeys, frozen=True, kw_only=True, rename="camel"):
    """A name server's effective configuration."""

    bind_address: Name = "0.0.0.0"
    """RocketMQ 5.x."""
    listen_port: Port = 9876
    kv_config_path: Path = "namesrv/kvConfig.json"
    config_store_path: Annotated[str | None, Optional(PATH)] = None
    """The file that run-time changes are written to; that of `--conf` if the file doesn't say."""
    order_message_enable: Bool = False
    server_socket_backlog: Annotated[int, Whole(1)] = 1024
    server_socket_snd_buf_size: Count = 0
    server_socket_rcv_buf_size: Count = 0
