"""One seed as a page to watch: hosts, links, offsets and faults over time, in one file that needs no network.

The page holds a recording as JSON; its script puts the moments together and draws what was at the time that the
reader has chosen.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.recording import Recording
from hatwisted.sim.setup import MEMBERS, Setup
from hatwisted.sim.simulation import Simulation
from hatwisted.wire.codes import ResponseCode

TEMPLATE = "simulation.html.jinja"


def watch(setup: Setup) -> tuple[Outcome, Recording]:
    """Run it, and what it looked like."""
    simulation = Simulation(setup)
    recording = Recording(simulation)
    return simulation.run(), recording


def page(setup: Setup, outcome: Outcome, recording: Recording) -> str:
    """The HTML of a run.

    - setup: what was run
    - outcome: what came of it
    - recording: what it looked like
    """
    shown = {
        "brokers": list(HOSTS),
        "members": list(MEMBERS) if setup.consumers else [],
        "codes": {str(int(code)): code.name for code in ResponseCode} | {"none": "no answer"},
        "moments": recording.moments,
        "events": recording.events,
        "faults": recording.faults,
    }
    environment = Environment(loader=FunctionLoader(_source), autoescape=True, trim_blocks=True)
    return environment.get_template(TEMPLATE).render(
        seed=setup.seed,
        terms=terms(setup),
        violations=outcome.violations,
        struck=sum(outcome.struck.values()),
        command=command(setup),
        digest=outcome.digest,
        recording=_for_script(shown),
    )


def terms(setup: Setup) -> list[str]:
    """How the group is configured, in RocketMQ's words."""
    return [
        "SYNC_MASTER" if setup.sync_master else "ASYNC_MASTER",
        "SYNC_FLUSH" if setup.sync_flush else "ASYNC_FLUSH",
        f"haAck={setup.broker('b', setup.terms, slave=True).ha_ack.value}",
    ]


def command(setup: Setup) -> str:
    """What runs it again."""
    return f"python -m hatwisted.sim --first {setup.seed} --seeds 1"


def _source(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _for_script(value: Any) -> Markup:
    """As JSON that can't end the script element it stands in."""
    return Markup(msgspec.json.encode(value).decode().replace("<", "\\u003c"))
