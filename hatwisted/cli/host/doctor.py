"""`hatwisted doctor`: can this broker run here, and reach whom it needs? Looks, judges, changes nothing."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.cli.cluster.clusteraccount import credentials_of, credentials_option
from hatwisted.cli.cluster.clustertls import tls_of, tls_options
from hatwisted.cli.cluster.newslave import answers, is_free
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.host.hostfacts import clock_synchronised, disk_of, limits, versions
from hatwisted.cli.host.neighbours import neighbour_checks, own_address
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.output import echo_json, folded, json_option
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.survey import Survey, Words
from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.load import load_broker_config
from hatwisted.config.roles import as_master, as_slave
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.health.judgement import Weight
from hatwisted.health.surroundings import (
    Check,
    fine,
    is_well,
    note,
    of_certificate,
    of_disk,
    of_limits,
    problem,
)
from hatwisted.tls.certificates import CertificateError, PemFiles, read_material
from hatwisted.wire.printable import printable
from hatwisted.wire.registration import ClusterInfo

MARKS: Final = {None: ("ok", "green"), Weight.NOTE: ("-", None), Weight.PROBLEM: ("!", "red")}
INDENT: Final = 18
LONGEST_PEM: Final = 1 << 20


@click.command(cls=Command)
@click.option("-c", "--conf", type=click.Path(dir_okay=False), help="The broker's. [RocketMQ's defaults]")
@click.option(
    "-s", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As twistd hamaster takes it."
)
@credentials_option
@tls_options
@json_option
def doctor(conf: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Say whether a broker can run on this host, and what to do.

    Looks at configuration, disk, limits, ports, clock, certificates, name servers, and for a slave at its master.
    Changes nothing.

    Exit codes: 0 no problem; 1 a problem; 2 usage error.
    """
    checks = list(_checks(conf, overrides))
    if as_json:
        echo_json(checks)
    else:
        for each in checks:
            mark, colour = MARKS[each.weight]
            line = folded(printable(each.what), INDENT, f"{mark:<3}{each.name:<14} ")
            click.secho(line[:3], fg=colour, bold=True, nl=False)
            click.echo(line[3:])
            if each.advice:
                click.echo(folded(printable(each.advice), INDENT, " " * INDENT))
    sys.exit(EXIT_OK if is_well(checks) else EXIT_PROBLEMS)


def _checks(conf: str | None, overrides: tuple[str, ...]) -> Iterator[Check]:
    yield fine("versions", versions())
    host = Host(socket.gethostname(), "127.0.0.1", os.path.expanduser("~"))
    try:
        loaded = load_broker_config(conf, overrides, host=host, environ=os.environ)
        slave = loaded.config.broker_role is BrokerRole.SLAVE
        loaded = (as_slave if slave else as_master)(loaded)
    except ConfigError as error:
        yield problem(
            "configuration", str(error), "correct it; hatwisted conf explain KEY says what a key means"
        )
        return
    config = loaded.config
    for warning in loaded.warnings:
        yield note("configuration", warning, "hatwisted conf explain KEY says what a key means")
    if not loaded.warnings:
        yield fine("configuration", f"{config.broker_role.value} {config.broker_id} of {config.broker_name}")
    yield from of_disk(disk_of(config))
    yield from of_limits(*limits(), config.mapped_file_size_commit_log)
    yield from _certificates(config)
    yield from neighbour_checks(config, ClientNetwork(config), clock_synchronised())


def _certificates(config: BrokerConfig) -> Iterator[Check]:
    ends = {
        "tls.server.certPath": PemFiles(
            certificate=config.tls_server_cert_path,
            key=config.tls_server_key_path,
            key_password=config.tls_server_key_password,
            trust=config.tls_server_trust_cert_path,
        ),
        "haTlsCertPath": PemFiles(
            certificate=config.ha_tls_cert_path,
            key=config.ha_tls_key_path,
            key_password=config.ha_tls_key_password,
            trust=config.ha_tls_trust_cert_path,
        ),
    }
    for key, files in ends.items():
        try:
            identity = read_material(files, _content).identity
        except CertificateError as error:
            yield problem("certificate", f"{key}: {error}", "give files in PEM that this user can read")
        else:
            if identity is not None:
                yield of_certificate(key, identity.expires, time.time())


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(LONGEST_PEM)


class ClientNetwork:
    """A `neighbours.Network`: this host's, asked as the present command's options say. config: the broker's."""

    def __init__(self, config: BrokerConfig) -> None:
        context = click.get_current_context()
        try:
            settings = ClusterSettings(
                name_servers=tuple(config.name_servers) or (own_address(config),),
                credentials=credentials_of(context),
                tls=tls_of(context),
            )
        except ValueError as error:
            raise CannotRun(str(error)) from None
        self._driver = BlockingDriver(Links(settings))
        self._survey = Survey(ClusterLink(self._driver, settings.name_servers).session)
        self.is_free = is_free
        self.answers = answers

    def name_servers(self) -> Mapping[str, ClusterInfo | ClientError]:
        """As Network."""
        return self._driver.run(self._survey.name_servers())

    def broker(self, address: str) -> Words:
        """As Network."""
        return self._driver.run(self._survey.broker(address))
