"""`twistd hamaster`: a broker of role ASYNC_MASTER or SYNC_MASTER."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.application.service import IService

from hatwisted.assembly.parts import Parts
from hatwisted.config.load import Loaded, load_broker_config, with_path
from hatwisted.config.roles import as_master
from hatwisted.config.schema import BrokerConfig
from hatwisted.tap.embedded import build_master
from hatwisted.tap.realparts import this_host
from hatwisted.tap.startup import BrokerOptions, make_service
from hatwisted.tap.storecheck import check_store


class Options(BrokerOptions):
    """Command line of `twistd hamaster`."""

    synopsis = "[--conf FILE] [--set key=value ...]"
    longdesc = "A RocketMQ-compatible master: stores messages and replicates them to its slaves."


def makeService(options: Options) -> IService:
    """The master as a service; see `startup.make_service` for what ends the process instead."""
    return make_service("hamaster", options, _load, _build)


def _load(path: str | None, overrides: list[str], environ: Mapping[str, str]) -> Loaded[BrokerConfig]:
    return as_master(with_path(load_broker_config(path, overrides, host=this_host(), environ=environ), path))


def _build(config: BrokerConfig, parts: Parts) -> IService:
    check_store(parts.file_system, config)
    return build_master(config, parts)
