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

from hatwisted.config.tlskeys import LinkTlsKeys, TlsKeys, TlsMode
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
PageTlsMode = Annotated[TlsMode | None, Optional(Choice(TlsMode, any_case=True))]
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
    """The cluster that name servers list this broker under; the same for all of its groups."""
    broker_name: Name = "DEFAULT_BROKER"
    """The group's name, the same for a master and its slaves."""
    broker_id: Annotated[int, Whole(-LONG_MAX - 1, LONG_MAX)] = 0
    """0 is the master; slaves of a group have 1 and up, each its own."""
    broker_role: Annotated[BrokerRole, Choice(BrokerRole)] = BrokerRole.ASYNC_MASTER
    """A SYNC_MASTER answers a put once a slave has it too, an ASYNC_MASTER at once (B03)."""
    broker_config_path: Annotated[str | None, Optional(PATH)] = None
    """RocketMQ 5.x: the file that run-time changes are written to; that of `--conf` if the file doesn't
    say."""
    broker_permission: Annotated[int, Whole(0, 7)] = 6
    """What name servers say of the broker: 4 read, 2 write, 6 both."""
    broker_ip1: Name = msgspec.field(name="brokerIP1", default="127.0.0.1")
    """The address that clients are given, and, as storeHost, in every record."""
    broker_ip2: Name = msgspec.field(name="brokerIP2", default="127.0.0.1")
    """The address that slaves are given to connect to."""
    bind_address: Name = "0.0.0.0"
    """RocketMQ 5.x: the address to listen on, with all three ports."""
    listen_port: Annotated[int, BROKER_PORT] = 10911
    """Where clients connect; `listenPort` - 2 is the VIP port, and `listenPort` + 1 is for slaves (B15)."""
    namesrv_addr: Annotated[str | None, Optional(HOST_PORT_LIST)] = None
    """Name servers, as `host:port;host:port`; the environment's NAMESRV_ADDR if the file doesn't say."""
    credentials_file: Annotated[str | None, Optional(PATH)] = None
    """Ours: the account that this broker uses towards others (a slave towards its master), as in RocketMQ's
    tools.yml."""

    # -- registration and topics
    register_name_server_period: Milliseconds = 30000
    """Between two registrations at each name server; at least 10 s and at most 60 s."""
    register_broker_timeout_mills: Milliseconds = 6000
    """How long a registration waits for a name server's answer."""
    compressed_register: Bool = False
    """Send registrations deflated."""
    force_register: Bool = True
    """Always register in full; with `false`, name servers are asked first whether anything has changed."""
    embedded_namesrv: Bool = True
    """Ours: a master without `namesrvAddr` starts its own name server."""
    embedded_namesrv_port: Annotated[int | None, Optional(PORT)] = None
    """Ours: that name server's port; 9876 if that is free, else any, if the file doesn't say."""
    vip_listen_enable: Bool = True
    """Ours: listen on `listenPort` - 2 too. RocketMQ's slaves fetch topics from it, and clients up to 4.4
    send to it."""
    auto_create_topic_enable: Bool = True
    """Make an unknown topic when its first message comes."""
    default_topic_queue_nums: Annotated[int, Whole(1)] = 8
    """Queues of such a topic at most; its producer may ask for fewer."""
    cluster_topic_enable: Bool = True
    """The topic that has the cluster's name may be read and written."""
    broker_topic_enable: Bool = True
    """The topic that has the broker's name may be read and written."""
    trace_topic_enable: Bool = False
    """Make the topic in which clients trace their messages."""
    msg_trace_topic_name: Name = TRACE_TOPIC
    """That topic's name."""
    auto_create_subscription_group: Bool = True
    """Make an unknown consumer group when it's first asked for."""

    # -- SQL92 filters
    enable_property_filter: Bool = False
    """Consumers may filter by SQL92 expressions; the same on master and slaves."""
    filter_support_retry: Bool = False
    """Filter retries too, by the filter of the topic that they came from."""
    filter_data_clean_time_span: Milliseconds = 24 * 3600 * 1000
    """How long the filters of a group without members are kept."""

    # -- requests
    long_polling_enable: Bool = True
    """Hold a pull without messages for as long as its consumer asks."""
    short_polling_time_mills: Milliseconds = 1000
    """How long it's held otherwise."""
    slave_read_enable: Bool = False
    """On a master: send consumers that are far behind to the slave."""
    max_message_size: Bytes = 4 * 1024 * 1024
    """The largest body of a message that is taken."""
    max_unacknowledged_bytes_per_address: Annotated[int | None, Optional(Whole(64 << 10, unit="bytes"))] = (
        None
    )
    """Ours: bytes of one address's messages that wait for a slave, or for the disk, after which no more of them
    are read; 4 MiB if the file doesn't say."""
    access_message_in_memory_max_ratio: Annotated[int, Whole(0, 100, "percent")] = 40
    """Share of the memory that a consumer may be behind before `slaveReadEnable` sends it to the slave."""
    message_delay_level: Annotated[str, DELAY_LEVELS] = (
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )
    """The delays that a message's DELAY 1, 2, ... stands for; the same on master and slaves."""

    # -- store
    store_path_root_dir: Path = "store"
    """The folder of log, queues, index and tables, for this broker alone."""
    store_path_commit_log: Annotated[str | None, Optional(PATH)] = None
    """The log's own folder; `commitlog` below the root if the file doesn't say."""
    mapped_file_size_commit_log: Annotated[int, LOG_FILE_SIZE] = 1024 * 1024 * 1024
    """Size of each file of the log; the same on master and slaves, and for the life of a store."""
    mapped_file_size_consume_queue: Annotated[int, Whole(20, unit="bytes", step=20)] = 6000000
    """Size of each file of a queue, 20 bytes a message; rounded up to a multiple of 20."""
    message_index_enable: Bool = True
    """Keep an index by which messages are found by key."""
    message_index_safe: Bool = False
    """A recovery begins where the index was on disk as well; otherwise it may lack the last moments before a
    crash."""
    max_hash_slot_num: Annotated[int, Whole(1)] = 5000000
    """Hash slots of each index file."""
    max_index_num: Annotated[int, Whole(2)] = 20000000
    """Messages of each index file."""
    check_crc_on_recover: Bool = msgspec.field(name="checkCRCOnRecover", default=True)
    """A recovery compares the checksums of bodies."""

    # -- flush
    flush_disk_type: Annotated[FlushDiskType, Choice(FlushDiskType)] = FlushDiskType.ASYNC_FLUSH
    """With SYNC_FLUSH a put is answered when it is on disk (B04)."""
    sync_flush_timeout: Milliseconds = 5000
    """How long such a put waits before it is answered FLUSH_DISK_TIMEOUT."""
    flush_interval_commit_log: Milliseconds = 500
    """With ASYNC_FLUSH: between two looks at what isn't on disk."""
    flush_commit_log_least_pages: Count = 4
    """Pages of 4 KiB, not on disk, that are worth a sync at such a look."""
    flush_commit_log_thorough_interval: Milliseconds = 10000
    """After this time anything is synced: what a power failure may cost."""

    # -- tables on disk
    flush_consumer_offset_interval: Annotated[int, Whole(1, unit="ms")] = 5000
    """Between two writes of consumer offsets: what may be consumed again after a crash."""
    flush_delay_offset_interval: Annotated[int, Whole(1, unit="ms")] = 10000
    """The same of the progress of delay levels."""

    # -- transactions
    transaction_time_out: Milliseconds = 6000
    """How long a half message may stay undecided before its producer is asked."""
    transaction_check_max: Count = 15
    """Times that it's asked before the message is given up."""
    transaction_check_interval: Annotated[int, Whole(1, unit="ms")] = 60000
    """Between two rounds of asking."""

    # -- expiry
    delete_when: Annotated[str, HOURS] = "04"
    """Hours of the day at which expired files are removed."""
    file_reserved_time: Annotated[int, Whole(0, unit="hours")] = 72
    """How long a file of the log is kept, counted while a broker runs on the store."""
    clean_resource_interval: Milliseconds = 10000
    """Between two looks for files to remove."""
    delete_commit_log_files_interval: Count = 100
    """ms between two removals of the same look."""
    disk_max_used_space_ratio: Annotated[int, Whole(10, 95, "percent", clamp=True)] = 75
    """Used share of the disk from which expired files are removed at any hour."""
    clean_file_forcibly_enable: Bool = True
    """Remove the oldest files above 85 %, expired or not."""

    # -- monitoring
    metrics_port: Annotated[int | None, Optional(PORT)] = None
    """Ours: where Prometheus finds the broker's figures, and others its health; nowhere if the file doesn't
    say."""
    metrics_address: Annotated[str | None, Optional(Text())] = None
    """Ours: its address; if the file doesn't say, `bindAddress` if that is one address, else 127.0.0.1."""
    metrics_tls_mode: PageTlsMode = None
    """Ours: does it speak TLS? disabled, permissive or enforcing; permissive if the file doesn't say, unless
    `tls.server.mode` is disabled."""
    metrics_topics: Annotated[int, Whole(0, 2000)] = 0
    """Ours: topics that have figures of their own; the others are shown as one."""
    metrics_groups: Annotated[int, Whole(0, 2000)] = 100
    """Ours: topics of consumer groups whose lag is shown, those furthest behind first."""
    dashboard_port: Annotated[int | None, Optional(PORT)] = None
    """Ours: where a browser finds the live page; nowhere if the file doesn't say."""
    dashboard_address: Annotated[str | None, Optional(Text())] = None
    """Ours: its address; 127.0.0.1 if the file doesn't say. Another one needs `dashboardPasswordFile`."""
    dashboard_password_file: Annotated[str | None, Optional(PATH)] = None
    """Ours: a file with one line, `name:password`, that the browser asks for."""
    dashboard_tls_mode: PageTlsMode = None
    """Ours: does it speak TLS? As `metricsTlsMode`."""

    # -- replication
    ha_master_address: Annotated[str | None, Optional(HOST_PORT)] = None
    """On a slave: its master's HA port; the name server says it if the file doesn't (B17)."""
    ha_allow_list: NetworkList = None
    """Ours: networks from where slaves may connect; from everywhere if the file doesn't say."""
    ha_send_heartbeat_interval: Milliseconds = 5000
    """Either end of an idle HA link says a word this often."""
    ha_housekeeping_interval: Milliseconds = 20000
    """Either end drops a link without a word for this long; more than the heartbeat's interval."""
    ha_transfer_batch_size: Annotated[int, Whole(1, MAX_TRANSFER_BATCH, "bytes")] = 32768
    """Bytes of log in one frame of the HA link."""
    ha_slave_fallbehind_max: Bytes = 256 * 1024 * 1024
    """No put waits for a slave that lags by this much: it is answered SLAVE_NOT_AVAILABLE."""
    slave_timeout: Annotated[int | None, Optional(MILLISECONDS)] = None
    """How long a put waits for slaves before it is answered FLUSH_SLAVE_TIMEOUT; `syncFlushTimeout` if the
    file doesn't say (B75)."""
    slave_sync_first_delay: Milliseconds = 3000
    """Ours: from a slave's start to its first copy of its master's tables. RocketMQ's constant."""
    slave_sync_interval: Milliseconds = 10000
    """Ours: between two copies. RocketMQ's constant of 4.x; documents of older versions say 60 s."""
    ha_first_sync: Annotated[HaFirstSync, Choice(HaFirstSync)] = HaFirstSync.LAST_FILE
    """Ours: an empty slave copies from the start of its master's last file, as in RocketMQ, or with minOffset
    from its oldest byte."""
    ha_ack: Annotated[HaAck, Choice(HaAck)] = HaAck.RECEIVED
    """Ours: on a slave, acknowledge what is written, as in RocketMQ, or with `durable` what is synced to its
    disk."""
    ha_audit_rate: Count = 2 * 1024 * 1024
    """Ours: bytes a second of its log that a slave compares with its master's; 0: none."""
    in_sync_replicas: Annotated[int | None, Optional(Whole(1))] = None
    """RocketMQ 5.x: copies, the master's included, that a SYNC_MASTER waits for. Not set: two, as in 4.x, and
    not 5.x's default of 1, with which a SYNC_MASTER waits for no slave."""
    min_in_sync_replicas: Annotated[int, Whole(1)] = 1
    """RocketMQ 5.x: with fewer copies in sync, the master's included, a put is refused before the append."""
    ha_max_gap_not_in_sync: Bytes = 256 * 1024 * 1024
    """RocketMQ 5.x: a slave further behind than this isn't in sync."""

    # -- sockets: 0 leaves a buffer to the kernel
    server_socket_backlog: Annotated[int, Whole(1)] = 1024
    """Connections that wait to be accepted, for each port."""
    server_socket_snd_buf_size: Count = 0
    """Send buffer of accepted connections, HA links included."""
    server_socket_rcv_buf_size: Count = 0
    """Receive buffer of accepted connections, HA links included."""
    client_socket_snd_buf_size: Count = 0
    """Send buffer of a slave's HA link."""
    client_socket_rcv_buf_size: Count = 0
    """Receive buffer of a slave's HA link."""

    # -- event loop
    idle_poll_micros: Annotated[int, Whole(0, 1000, "us")] = 200
    """Ours: how long the event loop keeps polling for events before it sleeps, while they come that fast; 0: it
    sleeps at once. Who waits for one answer after the other has them sooner."""

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

    # -- addresses and files
    bind_address: Name = "0.0.0.0"
    """RocketMQ 5.x: the address to listen on."""
    listen_port: Port = 9876
    """Where brokers and clients connect."""
    kv_config_path: Path = "namesrv/kvConfig.json"
    """The file of settings that operators keep at a name server."""
    config_store_path: Annotated[str | None, Optional(PATH)] = None
    """The file that run-time changes are written to; that of `--conf` if the file doesn't say."""
    order_message_enable: Bool = False
    """Add the settings of ordered topics to routes."""
    # -- monitoring
    metrics_port: Annotated[int | None, Optional(PORT)] = None
    """Ours: where Prometheus finds the name server's figures, and others its health; nowhere if the file doesn't
    say."""
    metrics_address: Annotated[str | None, Optional(Text())] = None
    """Ours: its address; if the file doesn't say, `bindAddress` if that is one address, else 127.0.0.1."""
    metrics_tls_mode: PageTlsMode = None
    """Ours: does it speak TLS? disabled, permissive or enforcing; permissive if the file doesn't say, unless
    `tls.server.mode` is disabled."""
    # -- sockets: 0 leaves a buffer to the kernel
    server_socket_backlog: Annotated[int, Whole(1)] = 1024
    """Connections that wait to be accepted, for each port."""
    server_socket_snd_buf_size: Count = 0
    """Send buffer of accepted connections."""
    server_socket_rcv_buf_size: Count = 0
    """Receive buffer of accepted connections."""
