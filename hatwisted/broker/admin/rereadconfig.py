"""The configuration file, read again while the broker runs: what an editor has changed in it.

Keys that take effect at once do so, as if `mqadmin updateBrokerConfig` had set them; the others are named, as they
wait for a restart. What was overridden on the command line stays so.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from hatwisted.config.changing import EFFECTIVE
from hatwisted.config.live import LiveConfig
from hatwisted.config.load import schema_fields
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
    changed = {
        field.encode_name: field.name
        for field in schema_fields(BrokerConfig)
        if getattr(now, field.name) not in (getattr(before, field.name), getattr(live.config, field.name))
    }
    take_file()
    taken = {key: name for key, name in changed.items() if key in EFFECTIVE}
    live.adopt({key: (name, getattr(now, name)) for key, name in taken.items()})
    waiting = sorted(set(changed) - set(taken))
    _log.info(
        "configuration read again: {taken}{waiting}",
        event="config.reread",
        taken=f"in effect: {', '.join(sorted(taken))}" if taken else "nothing to take over",
        waiting=f"; after a restart: {', '.join(waiting)}" if waiting else "",
    )
