"""Mistakes in what waits: for a message, a disk, or a slave."""

from __future__ import annotations

from hatwisted.broker.node import brokernode
from hatwisted.broker.pull.pullhold import HeldPull, PullHold
from hatwisted.ha.haconnection import HAConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.sim.plantedbug import Bug
from hatwisted.store.log.waitline import WaitLine


def _nothing(*_args: object) -> None:
    return None


_drop = PullHold._drop


def _drop_uncounted(hold: PullHold, pull: HeldPull) -> None:
    _drop(hold, pull)
    hold.count += pull.weight


def _close_connections(_port: object, factory: RemotingServerFactory) -> None:
    for connection in list(factory.connections):
        connection.close()


def _release_nobody(line: WaitLine) -> None:
    line._waits.clear()
    line._timer.cancel()


def _expire_and_keep(line: WaitLine) -> None:
    now = line._clock.seconds()
    for wait in line._waits:
        if wait.deadline <= now and not wait.deferred.called:
            wait.deferred.callback(line.offset)
    due = [wait.deadline for wait in line._waits if not wait.deferred.called]
    if due:
        line._timer.set(max(0.0, min(due) - now))


WAIT_BUGS: dict[str, Bug] = {
    "put-forgotten": Bug(
        "a put whose time is up while its slave is silent waits on",
        WaitLine,
        "_expire",
        _nothing,
        ("stall", "pause"),
        conf={"sync_master": True, "copies": None, "pause": 0.05},
    ),
    "port-left": Bug("a stopped broker still listens", brokernode, "_close", _close_connections),
    "puts-dropped": Bug(
        "a broker that stops tells those nothing who wait for its slave or its disk",
        WaitLine,
        "release_all",
        _release_nobody,
        conf={"sync_master": True, "sync_flush": True},
    ),
    "put-told-twice": Bug(
        "a put whose time is up is told again when its slave has it",
        WaitLine,
        "_expire",
        _expire_and_keep,
        ("stall", "pause"),
        conf={"sync_master": True, "copies": None, "pause": 0.05},
    ),
    "pull-forgotten": Bug(
        "a held pull whose time is up waits on", PullHold, "_expire", _nothing, conf={"consumers": True}
    ),
    "pull-passed-by": Bug(
        "a held pull isn't told of what arrives", PullHold, "_mark", _nothing, conf={"consumers": True}
    ),
    "held-uncounted": Bug(
        "a pull that is answered still counts as held",
        PullHold,
        "_drop",
        _drop_uncounted,
        conf={"consumers": True},
    ),
    "window-ignored": Bug(
        "a master goes on writing to a link that takes nothing",
        HAConnection,
        "pauseProducing",
        _nothing,
        ("stall", "cut", "partition"),
        conf={"tight": True, "pause": 0.05, "sizes": (500, 3000)},
    ),
}
"""By name."""
