"""`twistd haslave`: a broker of role SLAVE."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.application.service import IService

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.parts import Parts
from hatwisted.config.load import Loaded, load_broker_config, with_path
from hatwisted.config.roles import as_slave, slave_without_file
from hatwisted.config.schema import BrokerConfig
from hatwisted.tap.figures import with_figures
from hatwisted.tap.realparts import this_host
from hatwisted.tap.startup import BrokerOptions, make_service
from hatwisted.tap.storecheck import check_store


class Options(BrokerOptions):
    """Command line of `twistd haslave`."""

    synopsis = "[--conf FILE] [--set key=value ...]"
    longdesc = (
        "A RocketMQ-compatible slave: copies its master and serves reads. Without a file it is "
        "broker 1 of the group brokerName, and has to be told how to find its master: "
        "--namesrv, or --set haMasterAddress."
    )


def makeService(options: Options) -> IService:
    """The slave as a service; see `startup.make_service` for what ends the process instead."""
    return make_service("haslave", options, _load, _build)


def _load(path: str | None, overrides: list[str], environ: Mapping[str, str]) -> Loaded[BrokerConfig]:
    loaded = load_broker_config(path, overrides, host=this_host(), environ=environ)
    return as_slave(slave_without_file(loaded) if path is None else with_path(loaded, path))


def _build(config: BrokerConfig, parts: Parts) -> IService:
    check_store(parts.file_system, config)
    return with_figures(build_broker(config, parts), parts)
