"""Whom `hatwisted doctor` asks over the network: the broker itself if it runs, its name servers, its master.

What is asked, and how the answers are judged; who asks is a `Network`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.survey import Words
from hatwisted.config.pairing import pairing
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.config.tlskeys import TlsMode
from hatwisted.health import javatext
from hatwisted.health.figures import broker_figures
from hatwisted.health.surroundings import Check, fine, note, of_clock, of_name_servers, of_ports, problem
from hatwisted.metrics.looking import answers_of, properties_in
from hatwisted.wire.quantities import time_text
from hatwisted.wire.registration import MASTER_ID, ClusterInfo


class Network(Protocol):
    """Of this host."""

    def is_free(self, port: int) -> bool:
        """Could a server listen there?"""

    def answers(self, address: str) -> bool:
        """Does somebody listen at "host:port"?"""

    def name_servers(self) -> Mapping[str, ClusterInfo | ClientError]:
        """What each of the broker's says, or why it doesn't."""

    def broker(self, address: str) -> Words:
        """What the one there says."""


def own_address(config: BrokerConfig) -> str:
    """Where the broker itself would be asked."""
    return f"127.0.0.1:{config.listen_port}"


def neighbour_checks(config: BrokerConfig, network: Network, synchronised: bool | None) -> Iterator[Check]:
    """All of them.

    - config: the broker's
    - network: of its host
    - synchronised: is this host's clock kept right? None: not known
    """
    ports = [config.listen_port, config.ha_listen_port]
    if config.vip_listen_enable:
        ports.append(config.vip_listen_port)
    free = {port: network.is_free(port) for port in ports}
    running = None if free[config.listen_port] else _running(config, network)
    yield of_ports(free, None if running is None else _runtime(running), _asked_with(config))
    known = network.name_servers() if config.name_servers else {}
    yield from _of_name_servers(config, known, running)
    offset = None
    if config.broker_role is BrokerRole.SLAVE:
        master = _master(config, [info for info in known.values() if isinstance(info, ClusterInfo)])
        if master is None:
            yield problem(
                "master",
                f"no name server knows a master of {config.broker_name}",
                "start it, correct brokerName or namesrvAddr, or set haMasterAddress",
            )
        else:
            words = network.broker(master)
            figures = broker_figures(config.broker_name, MASTER_ID, master, answers_of(words))
            offset = None if figures.clock is None else figures.clock - figures.at
            yield from _of_master(config, network, master, words)
    yield from of_clock(synchronised, offset)


def _asked_with(config: BrokerConfig) -> str:
    """What this broker tells only to who gives it."""
    enforcing = config.tls_server_mode is TlsMode.ENFORCING
    return " and ".join(
        name for name, needed in (("--credentials", config.acl_enable), ("--tls", enforcing)) if needed
    )


def _of_name_servers(
    config: BrokerConfig, known: Mapping[str, ClusterInfo | ClientError], running: Words | None
) -> Iterator[Check]:
    """Does each answer, and list the broker, if that runs?"""
    lacking = [
        address
        for address, info in known.items()
        if running is not None and isinstance(info, ClusterInfo) and not _lists(config, info, running)
    ]
    yield from of_name_servers(
        {
            address: str(info) if isinstance(info, ClientError) else None
            for address, info in known.items()
            if address not in lacking
        }
    )
    for address in lacking:
        yield problem(
            "name-server",
            f"{address} answers, and doesn't list this broker, which runs: clients don't find it there",
            "restart the broker if namesrvAddr is newer than its start; another one may have its brokerName and "
            "brokerId; else its log says why",
        )


def _lists(config: BrokerConfig, info: ClusterInfo, running: Words) -> bool:
    """By its own id, at the address that it says it has."""
    group = info.broker_addr_table.get(config.broker_name)
    found = None if group is None else group.broker_addrs.get(config.broker_id)
    address = _told(running).get("brokerIP1")
    return found is not None and (address is None or found == f"{address}:{config.listen_port}")


def _running(config: BrokerConfig, network: Network) -> Words | None:
    """What the broker on the own port says, if it is this one."""
    words = network.broker(own_address(config))
    return words if _told(words).get("brokerName") == config.broker_name else None


def _told(words: Words) -> Mapping[str, str]:
    """The configuration that a broker says it has."""
    return (None if words.config is None else properties_in(words.config)) or {}


def _runtime(words: Words) -> str:
    return time_text(javatext.runtime(words.runtime.get("runtime")) or 0)


def _master(config: BrokerConfig, infos: Iterable[ClusterInfo]) -> str | None:
    fixed = config.ha_master_address
    if fixed:
        host, _, port = fixed.rpartition(":")
        return f"{host}:{int(port) - 1}"
    groups = (info.broker_addr_table.get(config.broker_name) for info in infos)
    return next(
        (each.broker_addrs[MASTER_ID] for each in groups if each and MASTER_ID in each.broker_addrs), None
    )


def _of_master(config: BrokerConfig, network: Network, address: str, words: Words) -> Iterator[Check]:
    if words.error is not None:
        yield problem("master", words.error, "start it, or open its listenPort to this host")
        return
    told = None if words.config is None else properties_in(words.config)
    if told is None:
        yield note(
            "master", f"{address} doesn't tell its configuration", "give --credentials of an administrator"
        )
        told = {}
    found = pairing(config, told)
    for each in found.objections:
        yield problem("master", each, "a slave with another setting can't copy it")
    for each in found.warnings:
        yield note("master", each, "correct it before this store is to be a master's")
    host, _, port = address.rpartition(":")
    ha = config.ha_master_address or (
        f"{told.get('brokerIP2') or host}:{told.get('haListenPort') or int(port) + 1}"
    )
    if not network.answers(ha):
        yield problem("ha-port", f"{ha} can't be reached from here", "open the master's HA port to this host")
    elif not found.objections:
        yield fine("master", f"{address} answers, and so does its HA port {ha}")
