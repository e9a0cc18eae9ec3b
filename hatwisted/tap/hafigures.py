"""Replication as entries of GET_BROKER_RUNTIME_INFO (28): what an operator asks of a link, as text.

RocketMQ 4.9.7 tells none of this but in one log line a minute. Offsets and lags are bytes of the commit log,
-1 where there is none yet; times are ages in ms. `haSlaves` is a JSON array with one object per link.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hatwisted.ha.master import HAService
from hatwisted.ha.slave import HAClientService

NONE = -1


def master_figures(ha: HAService) -> Mapping[str, str]:
    """The master's side: every link, and the newest acknowledgement of those that live."""
    now = ha.clock.seconds()
    links = ha.status()
    slaves = [
        {
            "address": link.address,
            "state": link.state,
            "stateAgeMs": _age(now, link.since),
            "ackOffset": link.ack_offset,
            "sentOffset": link.sent_offset,
            "lagBytes": link.lag_bytes,
            "lastReportAgeMs": _age(now, link.last_report),
        }
        for link in links
    ]
    return {
        "haSlaveCount": str(len(links)),
        "haSlaveAckOffset": str(max((link.ack_offset for link in links), default=NONE)),
        "haSlaves": msgspec.json.encode(slaves).decode(),
    }


def slave_figures(client: HAClientService) -> Mapping[str, str]:
    """The slave's side."""
    status = client.status()
    return {
        "haState": status.state,
        "haStateAgeMs": str(_age(client.clock.seconds(), status.since)),
        "haProblem": status.problem,
        "haMasterAddress": status.master_address or "",
        "haReportedOffset": str(status.reported_offset),
        "haSuspectFrom": str(NONE if status.suspect_from is None else status.suspect_from),
    }


def _age(now: float, then: float) -> int:
    return max(0, round((now - then) * 1000))
