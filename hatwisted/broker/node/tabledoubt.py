"""A master's table with nothing left in it isn't believed: the slave's may be the last one.

Topics and groups are deleted one at a time, and each deletion gives the table the next version. A table that has
lost all of them at once without being a later version of ours is that of a master that lost its files, or of a
broker that isn't our master at all. Taken over, it would refuse all consumers of this slave, and be what the group
goes on with once this slave is promoted. RocketMQ's slave takes it.

Rejected: doubting every deletion for a while. Operators' deletions would be late, and a wrong table only later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hatwisted.wire.registration import DataVersion


class DoubtfulTable(ValueError):
    """A table that isn't taken over; says what an operator can do."""


def believe(
    ours: Iterable[str], version: DataVersion, theirs: Collection[str], their_version: DataVersion
) -> None:
    """Nothing, or DoubtfulTable.

    - ours: what operators and clients have made of our table (names)
    - version: of our table
    - theirs: all names of the master's
    - their_version: of that
    """
    if theirs and their_version.counter > version.counter:
        return
    kept = 0
    for name in ours:
        if name in theirs:
            return
        kept += 1
    if not kept:
        return
    raise DoubtfulTable(
        f"it has none of the {kept} that are here (version {their_version.counter}, here {version.counter}); "
        "if that's meant, stop this slave and remove its copy from config/"
    )
