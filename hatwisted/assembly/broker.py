"""A broker put together from its configuration.

Ports are claimed at the end, before the process forks, so that one in use is reported on the operator's terminal;
all else that can fail does so when the node starts. Nothing is assigned after construction, except who
listens to whom: those lines stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hatwisted.acl.adminguard import is_admitted
from hatwisted.acl.changes import BROKER_CHANGES
from hatwisted.acl.entrance import Entrance
from hatwisted.assembly import options
from hatwisted.assembly.accountfiles import acl_files
from hatwisted.assembly.encryption import Encryption
from hatwisted.assembly.entry import entrance_options, port_options
from hatwisted.assembly.linkencryption import LinkEncryption
from hatwisted.assembly.orders import ServerConfig
from hatwisted.assembly.parts import Parts
from hatwisted.assembly.ports import BrokerPorts, ProxiedPorts
from hatwisted.broker.admin.acladmin import AclAdmin
from hatwisted.broker.admin.adminprocessor import AdminProcessors
from hatwisted.broker.admin.auditedstate import audited_states
from hatwisted.broker.admin.brokerconfig import BrokerConfigProcessors
from hatwisted.broker.admin.consumeradmin import ConsumerAdmin
from hatwisted.broker.admin.groupadmin import GroupAdmin
from hatwisted.broker.admin.logbytes import LogBytesProcessor
from hatwisted.broker.admin.messagequery import MessageQueryProcessor
from hatwisted.broker.admin.rereadconfig import take_reread
from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.admin.topicadmin import TableSpread, TopicAdmin
from hatwisted.broker.admin.topicstats import TopicView
from hatwisted.broker.consumer.consumerprocessors import ConsumerProcessors
from hatwisted.broker.consumer.offsetsync import OffsetSyncProcessors
from hatwisted.broker.node.brokernode import BrokerNode, NodeParts, RoleServices, ServedPort
from hatwisted.broker.node.comparedlogs import ComparedLogs
from hatwisted.broker.node.copyreport import CopyReport
from hatwisted.broker.node.joincheck import JoinCheck
from hatwisted.broker.node.logaudit import LogAudit
from hatwisted.broker.node.logrepair import LogRepair
from hatwisted.broker.node.masteraddress import MasterAddress
from hatwisted.broker.node.masterlog import MasterLog
from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.node.registration import Registration
from hatwisted.broker.node.slaveids import SlaveIds
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.broker.node.tablefollowers import TableFollowers
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.broker.pull.pullmessage import PULL_CODES, PullProcessor
from hatwisted.broker.put.newtopics import NewTopics
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.role import Role
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.transaction.endtransaction import needs_of_end
from hatwisted.broker.transaction.transactioncheck import check_options
from hatwisted.config.live import REQUEST, LiveConfig
from hatwisted.config.load import Loaded, Source
from hatwisted.config.roles import as_master, as_slave
from hatwisted.config.schema import BrokerConfig
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.disk.configfile import ConfigFile, written
from hatwisted.store.disk.worker import DEFAULT_THREADS as STORE_THREADS
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.lifecycle.lastrun import LastRun
from hatwisted.store.log.logranges import LogRanges
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.networks import Networks

MakeRole = Callable[[NodeParts, Parts], RoleServices]
"""Makes what a node does in one role and in no other."""


def build_broker(config: BrokerConfig, parts: Parts, make_role: MakeRole | None = None) -> BrokerNode:
    """A broker, its ports claimed, nothing started.

    - config: its configuration
    - parts: its surroundings
    - make_role: what it does in its role; default: what `config` says, see `role_services`

    Raises SettingError.
    """
    clock, fs = parts.clock, parts.file_system
    role = Role(config.broker_role, config.broker_id)
    identity = options.identity(config, parts.resolve)
    live = LiveConfig(config)
    worker, flush_worker = parts.make_worker("store", STORE_THREADS), parts.make_worker("flush", 1)
    encryption = Encryption(config, parts, worker)
    proxied = ProxiedPorts(config, clock)
    ports = BrokerPorts(config, parts.listening, lambda listen: encryption.port(proxied.port(listen)))
    store_options = options.store_options(live, identity, role, parts)
    store = MessageStore(store_options, clock, fs, worker, flush_worker)
    last_run = LastRun(fs, store_options.root, parts.boot)
    tables = BrokerTables(clock, fs, worker, store.flusher.synced, options.table_options(live), role)
    config_files: list[ConfigFile] = []
    if config.broker_config_path is not None:
        file = ConfigFile(fs, config.broker_config_path, worker, live.file_bytes)
        tables.keep(file, live.take_file)
        live.on_update(file.save)
        config_files.append(file)
    credentials = options.own_credentials(config, fs)
    parts.orders.on_reread(partial(_reread, live, config_files, fs))
    client = RemotingClient(encryption.connecting(config), clock, credentials=credentials)
    registration = Registration(client, clock, tables.topics, identity, role, options.registration(config))
    live.on_change(lambda changed: registration.permit(changed.broker_permission))
    master = MasterAddress(config.ha_master_address, alone=not config.name_servers)
    registration.on_master(master.learn)
    group_transfer = GroupTransferService(clock, config.slave_wait / 1000)
    link = LinkEncryption(config, parts, worker)
    ha = HAService(
        store.log, clock, link.port(ports.ha), group_transfer, options.master_settings(config, role)
    )
    parts.orders.on_haste(ha.hasten)
    parts.orders.on_haste(store.reput.hasten)
    consumers = ConsumerProcessors(clock, tables, store.starts_hot, store.queue_end, role)
    consumer_admin = ConsumerAdmin(clock, store, tables, consumers, identity)
    hold = PullHold(clock, store.queue_end)
    store.add_arrival_listener(hold.arrived)
    pull_options = live.derived(partial(options.pull_options, memory_bytes=parts.memory_bytes, role=role))
    count_get = consumer_admin.stats.count_get
    pulls = PullProcessor(store.get_messages, tables, consumers, hold, pull_options, count_get)
    guarding = entrance_options(config)
    offset_sync = OffsetSyncProcessors(
        tables.offsets,
        tables.topics,
        consumers.progress.stale,
        lambda: store.log.flushed_offset,
        SlaveIds(clock).asked,
        partial(_may_reset, config.acl_enable, guarding.admins, ha),
    )
    followers = TableFollowers(clock, tables, ha.slave_hosts)
    spread = TableSpread(registration.settled, followers.confirmed)
    runtime = RuntimeInfo(clock, store, parts.local_time)
    ranges = LogRanges(store.log, fs, worker)
    processors = ProcessorTable()
    for each in (
        consumers,
        pulls,
        consumer_admin,
        offset_sync,
        followers,
        AdminProcessors(store, tables.topics, tables.groups, tables.offsets, tables.delays, runtime),
        TopicAdmin(clock, store, tables, spread, role, lambda: master.registered is not None),
        TopicView(clock, store, tables, consumers.clients, identity.name),
        GroupAdmin(tables.groups, tables.offsets, consumer_admin.stats, role, followers.confirmed),
        MessageQueryProcessor(clock, store),
        LogBytesProcessor(clock, ranges),
        BrokerConfigProcessors(clock, live, partial(written, config_files), partial(_check_config, role)),
    ):
        each.register_on(processors)
    acl = acl_files(config, parts, worker)
    if acl is not None:
        AclAdmin(acl, identity).register_on(processors)
    served = [ServedPort(ports.remoting)]
    if config.vip_listen_enable:
        served.append(ServedPort(ports.vip, PULL_CODES))
    node = NodeParts(
        clock=clock,
        role=role,
        identity=identity,
        config=live,
        store=store,
        last_run=last_run,
        tables=tables,
        client=client,
        registration=registration,
        master=master,
        ha=ha,
        consumers=consumers,
        pulls=pulls,
        hold=hold,
        followers=followers,
        new_topics=NewTopics(clock, tables.topics, lambda: followers.kept(slaves=role.sync_master)),
        consumer_admin=consumer_admin,
        offset_sync=offset_sync,
        runtime=runtime,
        ranges=ranges,
        processors=processors,
        acl=acl,
        entrance=Entrance(
            BROKER_CHANGES,
            None if acl is None else lambda: acl.accounts,
            clock,
            guarding,
            {RequestCode.END_TRANSACTION: partial(needs_of_end, store.record_at)},
        ),
        states=audited_states(tables, live, acl),
        port_options=port_options(config),
        connections=parts.connections,
        rejected_of_proxies=lambda: proxied.rejected_total,
        ports=served,
        expiries=lambda: encryption.expiries() | link.expiries(),
        page_port=encryption.page_port,
        handshakes=lambda: encryption.handshakes + link.handshakes,
        link_connecting=link.connecting,
        release_ports=ports.release,
        workers=(worker, flush_worker),
    )
    broker = BrokerNode(node, (make_role or role_services)(node, parts))
    ports.claim()
    return broker


def role_services(node: NodeParts, parts: Parts) -> RoleServices:
    """What `node` does in the role that it has at present."""
    return slave_role(node, parts) if node.role.slave else master_role(node)


def master_role(node: NodeParts) -> MasterRole:
    """What `node` does as a master; a SYNC_MASTER's puts wait for its slaves."""
    live, config = node.config, node.config.config
    timeout = config.sync_flush_timeout / 1000
    acks = PutAcks(
        node.clock,
        node.store.flush,
        timeout,
        node.ha if node.role.sync_master else None,
        node.store.record_at,
        node.new_topics,
    )
    state = SendState(lambda: live.config.broker_permission, node.identity.store_address.rpartition(":")[0])
    return MasterRole(node, acks, state, check_options(config))


def slave_role(node: NodeParts, parts: Parts) -> SlaveRole:
    """What `node` does as a slave of the broker at `node.master`."""
    config, master = node.config.config, node.master
    master_log = MasterLog(node.client, lambda: master.log)
    link_parts = SlaveParts(
        log=node.store.log,
        clock=node.clock,
        connecting=node.link_connecting,
        random=parts.random,
        master_address=master.dial,
        master_log=master_log,
        flush_now=node.store.flusher.flush_now,
        objection=JoinCheck(node.clock, node.config, master_log).objection,
        at_rest=parts.give_back_memory,
    )
    ha_client = HAClientService(link_parts, options.slave_settings(config))
    sync = options.sync_options(config, node.role, node.registration.version_of)
    logs = ComparedLogs(node.client, lambda: master.log, node.ranges)
    live = node.config
    audit = LogAudit(
        node.clock,
        logs,
        master_log,
        lambda: ha_client.agrees,
        lambda: ha_client.heard,
        lambda: live.config.ha_audit_rate,
    )
    repair = LogRepair(logs, lambda: ha_client.agrees, parts.file_system, node.store.root)
    report = CopyReport(
        node.clock,
        node.store.log,
        master_log.runtime,
        lambda: ha_client.status().master_address if ha_client.fits else None,
    )
    return SlaveRole(node, ha_client, sync, audit, repair, report)


def _may_reset(
    accounts: bool, admins: Networks | None, ha: HAService, connection: RemotingConnection
) -> bool:
    """May a report of progress from there take it back? With accounts these say so; without, a linked slave may,
    and whoever may change this broker."""
    return accounts or connection.address in ha.slave_hosts() or is_admitted(connection, admins)


def _reread(
    live: LiveConfig[BrokerConfig],
    files: Sequence[ConfigFile],
    fs: IFileSystem,
    before: ServerConfig,
    now: ServerConfig,
) -> None:
    assert isinstance(before, BrokerConfig)
    assert isinstance(now, BrokerConfig)

    def take_file() -> None:
        for file in files:
            if fs.exists(file.path) and not file.unwritten:
                live.take_edited_file(fs.read(file.path))

    take_reread(live, take_file, before, now)


def _check_config(role: Role, config: BrokerConfig) -> None:
    check = as_slave if role.slave else as_master
    check(Loaded(config, [], Source(REQUEST, {})))
