"""`twistd hanamesrv`: a name server that brokers register with and clients ask for routes."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
from twisted.application.service import IService

from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.parts import Parts
from hatwisted.config.load import Loaded, load_namesrv_config
from hatwisted.config.schema import NamesrvConfig
from hatwisted.tap.figures import with_name_server_figures
from hatwisted.tap.realparts import this_host
from hatwisted.tap.startup import ServerOptions, make_service
from hatwisted.tap.storecheck import check_settings_file


class Options(ServerOptions):
    """Command line of `twistd hanamesrv`."""

    synopsis = "[--conf FILE] [--set key=value ...]"
    longdesc = "A RocketMQ-compatible name server: knows which broker serves which topic."


def makeService(options: Options) -> IService:
    """The name server as a service; see `startup.make_service` for what ends the process instead."""
    return make_service("hanamesrv", options, _load, _build)


def _load(path: str | None, overrides: list[str], environ: Mapping[str, str]) -> Loaded[NamesrvConfig]:
    config, warnings, source = load_namesrv_config(path, overrides, host=this_host())
    if path is not None and config.config_store_path is None:
        config = msgspec.structs.replace(config, config_store_path=os.path.abspath(path))
    return Loaded(config, warnings, source)


def _build(config: NamesrvConfig, parts: Parts) -> IService:
    check_settings_file(config)
    return with_name_server_figures(build_name_server(config, parts), parts)
