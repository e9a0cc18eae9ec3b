"""Checks of a whole configuration: does it fit the role, and do its values agree?

A broker's file doesn't say which program will read it. RocketMQ has one program for both roles; here
`hamaster` and `haslave` each take only their own, because a slave started as a master would start a diverging
log.
"""

from __future__ import annotations

import msgspec

from hatwisted.config.errors import ConfigError
from hatwisted.config.load import Loaded
from hatwisted.config.schema import RECORD_OVERHEAD, BrokerConfig, BrokerRole
from hatwisted.wire.registration import MASTER_ID

FIRST_SLAVE_ID = 1
"""A slave's id if none is configured: the usual one in a group with one slave."""


def as_master(loaded: Loaded[BrokerConfig]) -> Loaded[BrokerConfig]:
    """The configuration as a master runs it. Raises ConfigError if it is a slave's or can't store a
    message."""
    config, warnings, source = loaded
    if config.broker_role is BrokerRole.SLAVE:
        raise ConfigError(
            f"{source.where('brokerRole')}: brokerRole: SLAVE is not for hamaster; "
            "allowed: ASYNC_MASTER, SYNC_MASTER (or start this file with haslave)"
        )
    _check_idle_links_stay(loaded)
    warnings = [*warnings, *_common_warnings(loaded), *_too_big_for_a_file(loaded)]
    if config.broker_id != MASTER_ID:
        warnings.append(
            f"{source.where('brokerId')}: brokerId={config.broker_id} is ignored: "
            f"a master's is always {MASTER_ID}"
        )
        config = msgspec.structs.replace(config, broker_id=MASTER_ID)
    if config.broker_role is BrokerRole.SYNC_MASTER and config.copies_to_wait_for == 1:
        warnings.append(
            f"{source.where('inSyncReplicas')}: inSyncReplicas=1: this SYNC_MASTER waits for no slave; "
            "remove the key to wait for one, or set it to 2 or more"
        )
    return Loaded(config, warnings, source)


def slave_without_file(loaded: Loaded[BrokerConfig]) -> Loaded[BrokerConfig]:
    """A configuration without a file, as `haslave` takes it: role and id follow from the command. One that
    contradicts it (`--set brokerRole=...`) is left for `as_slave` to refuse."""
    config, warnings, source = loaded
    if "brokerRole" not in source.entries:
        config = msgspec.structs.replace(config, broker_role=BrokerRole.SLAVE)
    if "brokerId" not in source.entries:
        config = msgspec.structs.replace(config, broker_id=FIRST_SLAVE_ID)
    if "brokerName" not in source.entries:
        warnings = [
            *warnings,
            f"{source.name}: brokerName is not set, so this host's name is used, "
            f"{config.broker_name}; the master must use the same (--set brokerName=...)",
        ]
    return Loaded(config, warnings, source)


def as_slave(loaded: Loaded[BrokerConfig]) -> Loaded[BrokerConfig]:
    """The configuration as a slave runs it. Raises ConfigError if it is a master's or has a master's id
    (B02)."""
    config, warnings, source = loaded
    if config.broker_role is not BrokerRole.SLAVE:
        raise ConfigError(
            f"{source.where('brokerRole')}: brokerRole: {config.broker_role.value} is not for haslave; "
            "allowed: SLAVE (or start this file with hamaster)"
        )
    if config.broker_id <= MASTER_ID:
        raise ConfigError(
            f"{source.where('brokerId')}: brokerId: {config.broker_id} is not a slave's id; "
            "allowed: a whole number from 1, different for each slave of the group"
        )
    _check_idle_links_stay(loaded)
    warnings = [*warnings, *_common_warnings(loaded)]
    if not config.ha_master_address and not config.name_servers:
        warnings.append(
            f"{source.name}: neither haMasterAddress nor namesrvAddr is set: this slave won't find a master; "
            "set one of them, for example with --namesrv host:port"
        )
    return Loaded(config, warnings, source)


def _too_big_for_a_file(loaded: Loaded[BrokerConfig]) -> list[str]:
    config, _, source = loaded
    biggest = config.mapped_file_size_commit_log - RECORD_OVERHEAD
    if config.max_message_size <= biggest:
        return []
    key = "maxMessageSize" if "maxMessageSize" in source.entries else "mappedFileSizeCommitLog"
    return [
        f"{source.where(key)}: {key}: no file of "
        f"mappedFileSizeCommitLog={config.mapped_file_size_commit_log} "
        f"takes a message of maxMessageSize={config.max_message_size}: above {biggest} bytes it is refused"
    ]


def _check_idle_links_stay(loaded: Loaded[BrokerConfig]) -> None:
    config, _, source = loaded
    silence, heartbeat = config.ha_housekeeping_interval, config.ha_send_heartbeat_interval
    if silence <= heartbeat:
        key = (
            "haHousekeepingInterval"
            if "haHousekeepingInterval" in source.entries
            else "haSendHeartbeatInterval"
        )
        raise ConfigError(
            f"{source.where(key)}: {key}: haHousekeepingInterval={silence} would drop every idle link; "
            f"allowed: more than haSendHeartbeatInterval, {heartbeat}"
        )


def _common_warnings(loaded: Loaded[BrokerConfig]) -> list[str]:
    config, _, source = loaded
    warnings = []
    configured = source.entries.get("haListenPort")
    if configured is not None and configured.value.strip() != str(config.ha_listen_port):
        warnings.append(
            f"{source.where('haListenPort')}: haListenPort={configured.value} is ignored: "
            f"it is always listenPort + 1, here {config.ha_listen_port}"
        )
    return warnings
