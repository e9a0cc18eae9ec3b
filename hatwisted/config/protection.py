"""How open a configuration leaves a server.

What it asks for and doesn't get: such a server would be open against its owner's will, so it doesn't start, unless
that is allowed. What it doesn't ask for, while the server can be reached from elsewhere: that is worth a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from hatwisted.config.load import C, Loaded, lacks_protection, schema_fields
from hatwisted.config.schema import BrokerConfig, BrokerRole, NamesrvConfig
from hatwisted.config.tlskeys import MODE_KEY, TlsMode
from hatwisted.wire.networks import is_narrow, plain_address


def missing_protection(loaded: Loaded[C]) -> list[str]:
    """A line for each entry that asks for protection which isn't given."""
    known = {field.encode_name for field in schema_fields(type(loaded.config))}
    in_vain = [
        f"{where}: {MODE_KEY}={entry.value}: counts in the server's own configuration alone, as in RocketMQ"
        for where, entry in loaded.source.left_out.items()
        if entry.key == MODE_KEY and entry.value.strip().lower() == TlsMode.ENFORCING.value
    ]
    return in_vain + [
        f"{loaded.source.where(key)}: {key}={entry.value}: {lacked}"
        for key, entry in loaded.source.entries.items()
        if (lacked := lacks_protection(entry, known)) is not None
    ]


def open_to_strangers(config: BrokerConfig | NamesrvConfig) -> str | None:
    """What an operator should know of a server that other hosts reach and that lets everybody in; None if it's not
    one."""
    return "; ".join(_open(config)) or None


def _open(config: BrokerConfig | NamesrvConfig) -> Iterator[str]:
    broker = config if isinstance(config, BrokerConfig) else None
    if not is_loopback(config.bind_address):
        protected = is_narrow(config.listen_allow_list) or config.tls_server_mode is TlsMode.ENFORCING
        if not protected and not config.acl_enable:
            also = "" if broker is None else ", and haAllowList"
            yield (
                f"everybody who reaches {config.bind_address}:{config.listen_port} is served: set "
                f"{_narrower(config)}, aclEnable or tls.server.mode=enforcing{also}, or bindAddress=127.0.0.1"
            )
        elif broker is not None:
            yield from _open_besides(broker, protected)
    yield from _figures(config)
    if broker is not None:
        yield from _legible(broker)


def _figures(config: BrokerConfig | NamesrvConfig) -> Iterator[str]:
    """Who reads its figures, where another address is set for them."""
    address = config.metrics_address
    if _is_for_others(config.metrics_port, address) and not is_narrow(config.listen_allow_list):
        yield (
            f"everybody who reaches {address}:{config.metrics_port} reads the figures, with the names of topics "
            f"and groups: set {_narrower(config)}, or metricsAddress=127.0.0.1"
        )


def _legible(config: BrokerConfig) -> Iterator[str]:
    """What a broker's live page says that who is on the way can read."""
    address = config.dashboard_address
    if _is_for_others(config.dashboard_port, address) and config.dashboard_tls_mode is not TlsMode.ENFORCING:
        yield (
            f"the password of the live page at {address}:{config.dashboard_port} may be sent in plain text: set "
            "dashboardTlsMode=enforcing"
        )


def _is_for_others(port: int | None, address: str | None) -> bool:
    """Is a page there, at an address of its own that other hosts reach?"""
    return port is not None and address is not None and not is_loopback(address)


def _open_besides(config: BrokerConfig, protected: bool) -> Iterator[str]:
    """What else a broker opens. protected: are all of its clients' ports?"""
    if not is_narrow(config.ha_allow_list) and not config.ha_tls_enable:
        yield (
            f"everybody who reaches {config.bind_address}:{config.ha_listen_port} is sent the whole log, as a "
            f"slave is: set {_less('haAllowList', config.ha_allow_list)}, or haTlsEnable"
        )
    own_name_server = config.embedded_namesrv and not config.name_servers
    if own_name_server and not protected and config.broker_role is not BrokerRole.SLAVE:
        yield (
            "the name server that it brings along asks for no account, and everybody may register there: set "
            f"{_narrower(config)}, or namesrvAddr to one with accounts"
        )


def _narrower(config: BrokerConfig | NamesrvConfig) -> str:
    return _less("listenAllowList", config.listen_allow_list)


def _less(key: str, networks: str | None) -> str:
    """What to set: a list that is there has everybody."""
    return key if networks is None else f"{key} to less than {networks}"


def is_loopback(address: str) -> bool:
    """Does it reach this host alone?"""
    try:
        return plain_address(address).is_loopback
    except ValueError:
        return address == "localhost"
