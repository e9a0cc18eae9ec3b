"""How much of one address's messages may be in the log and wait for a slave, or the disk.

What a put waits for comes in the order of the log: an honest client's message waits for all that others have put
before it. One connection that pipelines batches puts 0.9 MiB with each read, hundreds of times a second, of which
the link to the slave, between two of them, is given 256 KiB: others' messages once waited for hundreds of
megabytes. So from an address whose messages are MAX_UNACKNOWLEDGED ahead no further ones are taken until some are
acknowledged: they wait, and their connection isn't read from. Nothing is refused, and one message is taken
whatever its size. Connections of one address go on in the order in which they came to wait.

It's ahead of time that it's looked at, and per address: a hundred connections that were read once more each would
put a hundred reads.

Rejected: a share for each connection (a stranger has as many as an address may have), one window for all (whoever
fills it makes all others wait for their turn), and a rate (`addressByteRate` is one: what a slave can take differs
by hosts, and what honest clients send by the hour).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import WeakValueDictionary

from hatwisted.remoting.requestturns import RequestTurns, Waiter
from hatwisted.wire.networks import counted_as

MAX_UNACKNOWLEDGED = 4 << 20
"""Bytes of the log of one address (`maxUnacknowledgedBytesPerAddress`) that aren't where their puts wait for them
to be, after which no more of its messages are taken. Eight producers that have 256 messages of 1 KiB each under
way don't fill it."""

LEAST_SIZE_IN_BATCH = 1 << 10
"""Bytes that a message of a batch counts as at least: to put it, to copy it and to enter it into its queue takes
as long as for one of that size, and a read of a batch may hold 7,900 that have nothing but a queue. Single ones
take reads of their own size: 20,000 small ones are under way at once, and none waits for a mute slave twice."""


class PortOfSender(Protocol):
    """turns: those of its port."""

    turns: RequestTurns


class Sender(Waiter, Protocol):
    """A connection."""

    @property
    def factory(self) -> PortOfSender:
        """Of its port."""


class SendWindow:
    """One address's."""

    def __init__(self, windows: SendWindows) -> None:
        self.full = False
        """Do its next messages have to wait?"""
        self.used = 0
        """Bytes that are put and not acknowledged."""
        self._windows = windows
        self._waiting: OrderedDict[Sender, None] = OrderedDict()

    @property
    def most(self) -> int:
        """Bytes that it has room for."""
        return self._windows.most

    def take(self, size: int) -> None:
        """So many bytes have been put, and aren't acknowledged."""
        self.used += size
        self.full = self.used >= self._windows.most

    def give_back(self, size: int) -> None:
        """So many of them are, or won't be waited for any longer: who waits first may go on, and all of them if
        nobody's acknowledgement is to come."""
        self.used -= size
        self.full = self.used >= self._windows.most
        if not self.full:
            for _ in range(1 if self.used else len(self._waiting)):
                if self._waiting:
                    sender = self._waiting.popitem(last=False)[0]
                    sender.factory.turns.wait(sender)

    def wait(self, sender: Sender) -> None:
        """Have `sender` go on when there is room. Only while it's full."""
        self._waiting[sender] = None
        self._windows.waits_total += 1

    def forget(self, sender: Sender) -> None:
        """It's gone; idempotent."""
        self._waiting.pop(sender, None)


class SendWindows:
    """Those of a process's clients, as long as somebody has one."""

    def __init__(self) -> None:
        self.most = MAX_UNACKNOWLEDGED
        """Bytes of one address."""
        self.waits_total = 0
        """Reads of messages that had to wait."""
        self._of_address: WeakValueDictionary[str, SendWindow] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._of_address)

    def of(self, address: str) -> SendWindow:
        """That of a client's address; of IPv6, of its network."""
        counted = counted_as(address)
        window = self._of_address.get(counted)
        if window is None:
            window = self._of_address[counted] = SendWindow(self)
        return window
