"""What is drawn before a run begins: how the group is configured, how much is sent, and what breaks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from hatwisted.config.schema import BrokerConfig, BrokerRole, FlushDiskType, NamesrvConfig
from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.sim.consumption import GroupTerms
from hatwisted.sim.faultplan import HOSTS, KINDS, ROT, Fault, draw_member_faults, draw_plan, draw_rot
from hatwisted.sim.promises import Terms
from hatwisted.wire.haframe import HaAck, HaFirstSync

FAULT_KINDS = tuple(KINDS)

GROUPS = (GroupTerms("billing", ordered=False, most=2), GroupTerms("ledger", ordered=True, most=0))
"""Consumer groups of the runs that have consumers."""

MEMBERS = {f"{group.name}-{number}": group.name for group in GROUPS for number in (1, 2)}
"""Each group's machines, with its name."""

ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "names": "10.0.0.9", "clients": "10.0.0.100"} | {
    member: f"10.0.0.{number}" for number, member in enumerate(MEMBERS, 101)
}
NAME_SERVER = f"{ADDRESSES['names']}:9876"
BROKER_PORT = 10911
HA_PORT = BROKER_PORT + 1

PATIENT = 7000
"""ms that a put waits for copies that can't come: long enough for a slave to dial again in the meantime."""

DELAYS = (1, 3, 2, 3, 5, 8)
"""Seconds of the delay levels. Short: a message that fails comes again within a run. First tries wait for the
third."""


CHECK_AGE, CHECK_INTERVAL = 2000, 4000
"""ms until producers are asked about their transactions, and between rounds of asking."""

MOST_CHECKS = 1000
"""Questions about a transaction: more than fit into a run."""


DRIFT = 0.05
"""Of the worst clocks: a time stamp counter that was measured wrongly. What NTP allows for is a hundredth."""

AUDIT_RATE = 1 << 20
"""Bytes a second that a slave compares with its master's, where it does."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    - seconds: of load and faults; the group then has time to heal
    - pause: seconds between two sends of busy producers, on average
    - sizes: of bodies, in bytes
    - queue_file_entries: of each file of a consume queue
    - delayed: share of messages with a delay level
    - transactions: are there producers of transactions?
    - tables: does an operator make and change topics and groups?
    - audited: does the slave compare its log with its master's?
    - copies: that SEND_OK says there are (`inSyncReplicas`); None: RocketMQ 4's one slave of a SYNC_MASTER. Three
      are more than the group can have
    - drift: share by which some hosts' clocks run faster, and others' slower
    - tight: are buffers and windows so small that they fill?
    - consumers: do groups read?
    - faults: in order of time
    """

    seed: int
    seconds: float
    sync_master: bool
    sync_flush: bool
    durable_acks: bool
    first_sync: HaFirstSync
    log_file_size: int
    queue_file_entries: int
    index: bool
    pause: float
    sizes: tuple[int, ...]
    delayed: float
    transactions: bool
    tables: bool
    audited: bool
    copies: int | None
    drift: float
    tight: bool
    consumers: bool
    faults: tuple[Fault, ...]

    @property
    def terms(self) -> Terms:
        """What SEND_OK means at first."""
        return Terms(self.sync_master, self.sync_flush, self.durable_acks)

    @property
    def read(self) -> bool:
        """Does anybody read what is in the logs before the end, changed bits and all?"""
        return self.consumers or self.transactions or self.delayed > 0

    @property
    def takes_puts(self) -> bool:
        """Can a put succeed while all is well?"""
        return not self.sync_master or self.copies is None or self.copies <= len(HOSTS)

    def other_terms(self, choice: int) -> Terms:
        """With which a broker may be started again. choice: one of 8; a quorum stays one."""
        synchronous = self.sync_master if self.copies is not None else bool(choice & 4)
        return Terms(synchronous, bool(choice & 1), bool(choice & 2))

    def broker(self, machine: str, terms: Terms, *, slave: bool) -> BrokerConfig:
        """The configuration of a machine's broker.

        - machine: its name
        - terms: how it answers at present
        - slave: is it one?
        """
        address = ADDRESSES[machine]
        master = BrokerRole.SYNC_MASTER if terms.sync_slaves else BrokerRole.ASYNC_MASTER
        return BrokerConfig(
            broker_name="broker-a",
            broker_id=1 if slave else 0,
            broker_role=BrokerRole.SLAVE if slave else master,
            broker_ip1=address,
            broker_ip2=address,
            listen_port=BROKER_PORT,
            namesrv_addr=NAME_SERVER,
            admin_allow_list="*",
            store_path_root_dir="/store",
            mapped_file_size_commit_log=self.log_file_size,
            mapped_file_size_consume_queue=ENTRY_SIZE * self.queue_file_entries,
            max_hash_slot_num=100,
            max_index_num=500,
            max_message_size=self.log_file_size // 4,
            clean_file_forcibly_enable=False,
            message_index_enable=self.index,
            message_delay_level=" ".join(f"{delay}s" for delay in DELAYS),
            transaction_time_out=CHECK_AGE,
            transaction_check_interval=CHECK_INTERVAL,
            transaction_check_max=MOST_CHECKS,
            flush_disk_type=FlushDiskType.SYNC_FLUSH if terms.sync_flush else FlushDiskType.ASYNC_FLUSH,
            ha_ack=HaAck.DURABLE if terms.durable_acks else HaAck.RECEIVED,
            ha_first_sync=self.first_sync,
            ha_audit_rate=AUDIT_RATE if self.audited else 0,
            in_sync_replicas=self.copies,
            slave_timeout=PATIENT if self.copies == 3 else None,
        )

    @staticmethod
    def name_server() -> NamesrvConfig:
        """The name server's configuration."""
        return NamesrvConfig(kv_config_path="/names/kvConfig.json")


def draw_setup(seed: int, kinds: Sequence[str] = FAULT_KINDS) -> Setup:
    """The run of a seed. kinds: of faults."""
    random = Random(f"{seed}/setup")
    seconds = random.choice((20.0, 40.0, 60.0))
    planned = [kind for kind in kinds if kind != ROT]
    setup = Setup(
        seed=seed,
        seconds=seconds,
        sync_master=random.random() < 0.75,
        sync_flush=random.random() < 0.6,
        durable_acks=random.random() < 0.5,
        first_sync=random.choice(list(HaFirstSync)),
        log_file_size=random.choice((1 << 14, 1 << 16, 1 << 18)),
        queue_file_entries=Random(f"{seed}/queues").choice((4, 20, 100)),
        index=random.random() < 0.5,
        pause=random.choice((0.15, 0.4, 1.0)),
        sizes=random.choice(((10, 60), (20, 500), (20, 500, 3000))),
        delayed=Random(f"{seed}/delayed").choice((0.0, 0.0, 0.1, 0.4)),
        transactions=Random(f"{seed}/transactions").random() < 0.3,
        tables=Random(f"{seed}/tables").random() < 0.3,
        audited=Random(f"{seed}/audited").random() < 0.15,
        copies=Random(f"{seed}/copies").choices((None, 2, 3), (88, 9, 3))[0],
        tight=Random(f"{seed}/tight").random() < 0.1,
        drift=Random(f"{seed}/drift").choices((0.0, 0.0005, DRIFT), (75, 5, 20))[0],
        consumers=False,
        faults=tuple(draw_plan(random, seconds, planned, random.choice((1, 3, 8, 20)) if planned else 0)),
    )
    setup = _with_consumers(setup, kinds, Random(f"{seed}/consumers"))
    return _with_rot(setup, kinds, Random(f"{seed}/rot"))


def _with_rot(setup: Setup, kinds: Sequence[str], random: Random) -> Setup:
    """Some runs in which nobody reads what has changed, or looks for it, have bits that change at rest."""
    asked = ROT in kinds or set(kinds) == set(FAULT_KINDS)
    if random.random() > 1 / 3 or setup.read or setup.audited or not asked:
        return setup
    faults = sorted((*setup.faults, *draw_rot(random, setup.seconds)), key=lambda fault: fault.at)
    return msgspec.structs.replace(setup, faults=tuple(faults))


def _with_consumers(setup: Setup, kinds: Sequence[str], random: Random) -> Setup:
    """Every sixth run has them: it takes three times as long as another."""
    if random.random() > 1 / 6:
        return setup
    more = draw_member_faults(random, setup.seconds, kinds, tuple(MEMBERS))
    faults = sorted((*setup.faults, *more), key=lambda fault: fault.at)
    return msgspec.structs.replace(setup, consumers=True, faults=tuple(faults))
