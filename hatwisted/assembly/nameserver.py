"""A name server put together: its own one, or the one that a master without any brings along.

The latter takes the well-known port 9876 when that is free: clients and slaves are configured with "this
host, 9876" as they would be of a name server of its own. If something else listens there, another name server
most likely, the master still starts, on a port that the system gives, and says so loudly: the operator has
either forgotten `namesrvAddr`, or doesn't care. With `embeddedNamesrvPort` the operator does care, and a port
in use ends the start. Rejected: a fixed other port (two masters on a host would collide again), and joining
whoever listens on 9876 unasked (a broker must not register with a cluster it isn't configured for).
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from os.path import join
from typing import Any, NamedTuple

import msgspec
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.logger import Logger

from hatwisted.assembly.accountfiles import acl_files
from hatwisted.assembly.encryption import Encryption
from hatwisted.assembly.entry import entrance_options, port_options
from hatwisted.assembly.orders import ServerConfig
from hatwisted.assembly.parts import Parts
from hatwisted.assembly.ports import ProxiedPorts, claim, interface_of
from hatwisted.config.errors import SettingError
from hatwisted.config.load import schema_fields
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.config.tlskeys import TlsKeys
from hatwisted.namesrv.service import DEFAULT_PORT, NameServerPort, NameServerService
from hatwisted.remoting.interfaces import PortUnavailable
from hatwisted.wire.networks import allow_list, is_network_list
from hatwisted.wire.storenames import CONFIG_FOLDER


def build_name_server(config: NamesrvConfig, parts: Parts) -> NameServerService:
    """A name server, its port claimed. Raises SettingError if that can't be had, or its accounts can't be read."""
    interface = interface_of(config.bind_address)
    claim(parts.listening, config.listen_port, interface)
    try:
        service = _on_claimed_port(config, parts, interface)
    except SettingError:
        parts.listening.release(config.listen_port, interface)
        raise

    def reread(before: ServerConfig, now: ServerConfig) -> None:
        assert isinstance(before, NamesrvConfig)
        assert isinstance(now, NamesrvConfig)
        service.reread(before, now)

    parts.orders.on_reread(reread)
    return service


def _on_claimed_port(config: NamesrvConfig, parts: Parts, interface: str) -> NameServerService:
    worker = parts.make_worker("namesrv", 1)
    encryption = Encryption(config, parts, worker)
    proxied = ProxiedPorts(config, parts.clock)
    listen = partial(parts.listening.listen, config.listen_port, interface=interface)
    return NameServerService(
        config,
        parts.clock,
        parts.file_system,
        worker,
        NameServerPort(
            encryption.port(proxied.port(listen)),
            partial(parts.listening.release, config.listen_port, interface),
            parts.connections,
            port_options(config),
            entrance_options(config),
            encryption.expiries,
            encryption.page_port,
            lambda: encryption.handshakes,
            lambda: proxied.rejected_total,
        ),
        acl_files(config, parts, worker),
    )


class EmbeddedNameServer(NamedTuple):
    """service: the name server; for_master: "host:port" where its own master reaches it; for_others: where
    anybody else does; warning: what the operator should know about the port."""

    service: NameServerService
    for_master: str
    for_others: str
    warning: str | None


def embed_name_server(config: BrokerConfig, parts: Parts) -> EmbeddedNameServer:
    """The name server that a master brings along, its port claimed by the rule above. Raises SettingError if
    the configured port is taken, or if the master couldn't reach it."""
    interface = interface_of(config.bind_address)
    everywhere = interface in ("", "::")
    own_host = "127.0.0.1" if everywhere else config.bind_address
    proxies = allow_list(config.proxy_protocol_from)
    if proxies is not None and own_host in proxies:
        raise SettingError(
            "proxyProtocolFrom",
            f"has {own_host}, from where this master reaches the name server that it starts, without a PROXY "
            "header; set namesrvAddr to one of its own",
        )
    port, warning = _claim_some_port(config.embedded_namesrv_port, parts, interface)
    of_master = {field.name: getattr(config, field.name) for field in schema_fields(TlsKeys)}
    # Accounts would have its own master, and every other broker, registered only with one of an administrator.
    of_master |= {"acl_enable": False, "listen_allow_list": _with_host(config.listen_allow_list, own_host)}
    settings = NamesrvConfig(
        listen_port=port,
        kv_config_path=join(config.store_path_root_dir, CONFIG_FOLDER, "kvConfig.json"),
        **of_master,
    )
    # Others reach it by this host's address; its own master doesn't need to.
    return EmbeddedNameServer(
        _on_claimed_port(settings, parts, interface),
        f"{own_host}:{port}",
        f"{config.broker_ip1 if everywhere else config.bind_address}:{port}",
        warning,
    )


def _with_host(networks: str | None, host: str) -> str | None:
    """The list with the master's own host, if it's an address: the operator has thought of clients."""
    joined = f"{networks};{host}"
    return networks if networks is None or not is_network_list(joined) else joined


def _claim_some_port(wanted: int | None, parts: Parts, interface: str) -> tuple[int, str | None]:
    """The port, and a warning for the operator, if there is one."""
    try:
        return parts.listening.claim(DEFAULT_PORT if wanted is None else wanted, interface), None
    except PortUnavailable as error:
        if wanted is not None:
            raise SettingError("embeddedNamesrvPort", str(error)) from None
        port = parts.listening.claim(0, interface)
        return port, (
            f"{error}; the name server uses port {port}, a different one at every start: set namesrvAddr if "
            "this host has a name server, or embeddedNamesrvPort"
        )


def needs_name_server(config: BrokerConfig) -> bool:
    """Is this a master without a configured name server, and may it start its own?"""
    return not config.name_servers and config.embedded_namesrv


def with_name_server(config: BrokerConfig, name_server: EmbeddedNameServer) -> BrokerConfig:
    """The configuration of the master that brings `name_server`."""
    return msgspec.structs.replace(config, namesrv_addr=name_server.for_master)


class Stack(MultiService):
    """Services that stand on each other: started in the order they were added, stopped in reverse,
    each when the one above it has stopped, or has failed to."""

    _log = Logger()

    @inlineCallbacks
    def stopService(self) -> Generator[Deferred[Any], Any, None]:
        Service.stopService(self)
        for service in reversed(list(self)):
            try:
                yield maybeDeferred(service.stopService)
            except Exception:
                self._log.failure("stopping {what} failed", what=service)


def stacked(*services: IService) -> Stack:
    """A Stack of these, the lowest first."""
    stack = Stack()
    for service in services:
        service.setServiceParent(stack)
    return stack
