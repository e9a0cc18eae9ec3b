"""How open a configuration leaves a server.

What it asks for and doesn't get: such a server would be open against its owner's will, so it doesn't start, unless
that is allowed. What it doesn't ask for, while the server can be reached from elsewhere: that is worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from hatwisted.config.load import C, Loaded, schema_fields
from hatwisted.config.rocketmqkeys import PROTECTION_KEYS
from hatwisted.config.schema import BrokerConfig, BrokerRole, NamesrvConfig
from hatwisted.config.tlskeys import TlsMode
from hatwisted.wire.networks import plain_address


def missing_protection(loaded: Loaded[C]) -> list[str]:
    """A line for each entry that asks for protection which isn't given."""
    known = {field.encode_name for field in schema_fields(type(loaded.config))}
    return [
        f"{loaded.source.where(key)}: {key}={entry.value}: {PROTECTION_KEYS[key].text}"
        for key, entry in loaded.source.entries.items()
        if key in PROTECTION_KEYS
        and key not in known
        and entry.value.strip().lower() not in PROTECTION_KEYS[key].harmless
    ]


def open_to_strangers(config: BrokerConfig | NamesrvConfig) -> str | None:
    """What an operator should know of a server that other hosts reach and that lets everybody in; None if it's not
    one."""
    if is_loopback(config.bind_address):
        return None
    protected = config.listen_allow_list is not None or config.tls_server_mode is TlsMode.ENFORCING
    broker = config if isinstance(config, BrokerConfig) else None
    if protected or config.acl_enable:
        return None if broker is None else "; ".join(_open_besides(broker, protected)) or None
    also = "" if broker is None else ", and haAllowList"
    return (
        f"everybody who reaches {config.bind_address}:{config.listen_port} is served: set listenAllowList, "
        f"aclEnable or tls.server.mode=enforcing{also}, or bindAddress=127.0.0.1"
    )


def _open_besides(config: BrokerConfig, protected: bool) -> Iterator[str]:
    """What else a broker opens. protected: are all of its clients' ports?"""
    if config.ha_allow_list is None and not config.ha_tls_enable:
        yield (
            f"everybody who reaches {config.bind_address}:{config.ha_listen_port} is sent the whole log, as a "
            "slave is: set haAllowList, or haTlsEnable"
        )
    own_name_server = config.embedded_namesrv and not config.name_servers
    if own_name_server and not protected and config.broker_role is not BrokerRole.SLAVE:
        yield (
            "the name server that it brings along asks for no account, and everybody may register there: set "
            "listenAllowList, or namesrvAddr to one with accounts"
        )


def is_loopback(address: str) -> bool:
    """Does it reach this host alone?"""
    try:
        return plain_address(address).is_loopback
    except ValueError:
        return address == "localhost"
