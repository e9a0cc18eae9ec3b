"""A master without a configured name server starts one in the same process, and prints its address."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from twisted.application.service import IService, Service
from twisted.logger import Logger

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import embed_name_server, needs_name_server, stacked, with_name_server
from hatwisted.assembly.parts import Parts
from hatwisted.config.schema import BrokerConfig
from hatwisted.tap.figures import with_figures


def build_master(config: BrokerConfig, parts: Parts) -> IService:
    """A broker of role ASYNC_MASTER or SYNC_MASTER, with a name server of its own if none is configured."""
    if not needs_name_server(config):
        return with_figures(build_broker(config, parts), parts)
    own = embed_name_server(config, parts)
    try:
        broker = with_figures(build_broker(with_name_server(config, own), parts), parts)
    except BaseException:
        own.service.stopService()
        raise
    return stacked(own.service, broker, Announcement(own.for_others, own.warning))


class Announcement(Service):
    """Shows the `namesrvAddr` for clients in the log and on the terminal, once its child services have started.

    A daemon has left the terminal by then: a duplicate of standard output passes through the fork.
    """

    _log = Logger()

    def __init__(self, address: str, warning: str | None) -> None:
        self._address = address
        self._warning = warning
        self._terminal = _duplicate(sys.stdout)

    def startService(self) -> None:
        super().startService()
        line = f"no namesrvAddr is set: this master starts its own name server, {self._address}"
        self._log.info("{line}", line=line)
        lines = [line]
        if self._warning is not None:
            self._log.warn("{line}", line=self._warning)
            lines.append(self._warning)
        self._terminal.write("".join(f"hamaster: {each}\n" for each in lines))
        self._terminal.flush()
        if self._terminal is not sys.stdout:
            self._terminal.close()


def _duplicate(stream: TextIO) -> TextIO:
    try:
        return os.fdopen(os.dup(stream.fileno()), "w")
    except (OSError, ValueError):  # not a descriptor that can be duplicated
        return stream
