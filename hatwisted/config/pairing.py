"""Can a slave of this configuration copy that master? What must be the same on both, and what had better be.

The master's side is what a broker answers to GET_BROKER_CONFIG, RocketMQ's as well as ours. What would have the
copy fail, sooner or later, is an objection; what shows only when the slave's store is to be a master's is a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hatwisted.config.schema import BrokerConfig

MASTER_ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER")
_SAME_FOR_PROMOTION: Final[Mapping[str, Callable[[BrokerConfig], object]]] = {
    "mappedFileSizeConsumeQueue": lambda config: config.mapped_file_size_consume_queue,
    "maxHashSlotNum": lambda config: config.max_hash_slot_num,
    "maxIndexNum": lambda config: config.max_index_num,
    "messageDelayLevel": lambda config: config.message_delay_level,
    "brokerClusterName": lambda config: config.broker_cluster_name,
}
_OTHER_PROTOCOLS: Final = {
    "enableDLegerCommitLog": "keeps a DLedger log, which no slave of RocketMQ 4's HA link can copy",
    "enableControllerMode": "runs in RocketMQ 5's controller mode, whose HA link is another one",
}


class Pairing(NamedTuple):
    """What speaks against it. objections: it can't work; warnings: it works until the two change places."""

    objections: list[str]
    warnings: list[str]


def pairing(slave: BrokerConfig, master: Mapping[str, str]) -> Pairing:
    """What a slave's configuration and its master's say about each other.

    - slave: ours
    - master: keys and values that it answered with; keys that it doesn't name aren't judged
    """
    objections = [*_role(master), *_file_size(slave, master)]
    objections += [
        f"the master {what} ({key}=true there)"
        for key, what in _OTHER_PROTOCOLS.items()
        if master.get(key) == "true"
    ]
    if "haTlsEnable" in master and (master["haTlsEnable"] == "true") != slave.ha_tls_enable:
        wanted = master["haTlsEnable"]
        objections.append(f"haTlsEnable is {wanted} at the master: set haTlsEnable={wanted}")
    warnings = _group(slave, master) + [
        f"{key} is {own} here and {theirs} at the master: set {key}={theirs}, or this store can't take the "
        "master's place"
        for key, get in _SAME_FOR_PROMOTION.items()
        if (theirs := master.get(key)) not in (None, "") and str(own := get(slave)) != theirs
    ]
    return Pairing(objections, warnings)


def _role(master: Mapping[str, str]) -> list[str]:
    role = master.get("brokerRole")
    if role is None or role in MASTER_ROLES:
        return []
    return [f"the broker there is a {role}, no master: set namesrvAddr or haMasterAddress to the master's"]


def _group(slave: BrokerConfig, master: Mapping[str, str]) -> list[str]:
    name = master.get("brokerName")
    if name is None or name == slave.broker_name:
        return []
    return [
        f"the master's brokerName is {name}, ours is {slave.broker_name}: set brokerName={name}, or "
        f"haMasterAddress to the master of {slave.broker_name}"
    ]


def _file_size(slave: BrokerConfig, master: Mapping[str, str]) -> list[str]:
    size = master.get("mappedFileSizeCommitLog")
    if size is None or size == str(slave.mapped_file_size_commit_log):
        return []
    return [
        f"mappedFileSizeCommitLog is {slave.mapped_file_size_commit_log} here and {size} at the master: a slave's "
        f"files are as long as its master's; set mappedFileSizeCommitLog={size}, and start with an empty store"
    ]
