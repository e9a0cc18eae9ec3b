"""The configuration file, read again while the broker runs: what an editor has changed in it.

Keys that take effect at once do so, as if `mqadmin updateBrokerConfig` had set them; the others are named, as they
wait for a restart. What was overridden on the command line stays so.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from hatwisted.acl.audittrail import audit_edited
from hatwisted.config.changing import EFFECTIVE
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig

_log = Logger()


def take_reread(
    live: LiveConfig[BrokerConfig],
    take_file: Callable[[], object],
    before: BrokerConfig,
    now: BrokerConfig,
) -> None:
    """Take over what has changed.

    - live: the configuration in effect
    - take_file: has it know the file's new content, so that the next change by request keeps that
    - before: what the last reading gave
    - now: what this one gives
    """
    reread = live.take_reread(take_file, before, now, EFFECTIVE)
    audit_edited("config.reread", reread.before, reread.after, waiting=reread.waiting)
    _log.info("configuration read again: {what}", event="config.reread", what=reread)
