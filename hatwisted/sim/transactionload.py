"""Producers of transactions in a simulation: a half message each, then a word about it, or the answer when a
broker asks.

What becomes of a transaction is fixed by its number, so that whoever asks later is told the same: some are
committed at once, some rolled back, some only when a broker asks, and of those some at its second question.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.broker.transaction.halfmessages import HALF_QUEUE
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.sim.history import Place, Sent
from hatwisted.sim.messageload import QUEUES, TIMEOUT, TOPICS, LoadEvents, not_answered, request, take_answer
from hatwisted.wire import fastjson, layout
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.storedrecord import Record

PAUSE = 2.0
"""Seconds between two transactions, on average."""

HEARTBEAT = 5.0
"""Seconds between heartbeats: a broker asks whom it knows."""

FIRST_NUMBER, FIRST_END = 50_000_000, 60_000_000
"""Of half messages and of their ends; above those of other messages."""

GROUP = "payments"


class TransactionLoad:
    """Begins transactions at random intervals, and answers for them while it's there.

    - connecting: makes its connections
    - clock: times them
    - random: draws when and where
    - target: address of the present master
    - events: called for each half message, and for each message that is to be committed
    - find: where the broker that it was sent to has it as the copy of the half at this log offset
    """

    def __init__(
        self,
        connecting: IConnecting,
        clock: IReactorTime,
        random: Random,
        target: Callable[[], str],
        events: LoadEvents,
        find: Callable[[Sent, int], Place | None],
    ) -> None:
        self.waiting = 0
        """Half messages neither answered nor given up so far."""
        self._client = RemotingClient(connecting, clock, self._asked)
        self._clock = clock
        self._random = random
        self._target = target
        self._events = events
        self._find = find
        self._sending = self._beating = False
        self._number = FIRST_NUMBER
        self._ends = 0
        self._sent: dict[int, Sent] = {}
        self._undecided: set[int] = set()
        """Numbers of those that nobody has asked about yet."""

    def start(self) -> None:
        """Start sending."""
        self._sending = self._beating = True
        self._beat()
        self._later()

    def stop(self) -> None:
        """Begin no more transactions; answer for those there are."""
        self._sending = False

    def close(self) -> Deferred[None]:
        """End; fires when its connections are closed."""
        self._beating = False
        return self._client.close()

    def _beat(self) -> None:
        if not self._beating:
            return
        beat = {"clientID": GROUP, "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        heartbeat = RemotingCommand(RequestCode.HEART_BEAT, body=fastjson.dumps_compact(beat))
        self._client.call(self._target(), heartbeat, TIMEOUT).addErrback(not_answered)
        self._clock.callLater(HEARTBEAT, self._beat)

    def _later(self) -> None:
        self._clock.callLater(self._random.expovariate(1 / PAUSE), self._turn)

    def _turn(self) -> None:
        if self._sending:
            self._begin()
            self._later()

    # -- a transaction ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._number += 1
        topic, queue_id = self._random.choice(TOPICS), self._random.randrange(QUEUES)
        sent = Sent(
            number=self._number,
            topic=topic,
            queue_id=queue_id,
            body=b"%08d" % self._number,
            sent_at=self._clock.seconds(),
            commits=_commits(self._number),
        )
        target = self._target()
        self._sent[sent.number] = sent
        self._events.sent(sent, target)
        self.waiting += 1
        properties = f"TRAN_MSG\1true\2PGROUP\1{GROUP}\2"
        flags = layout.SYS_TRANSACTION_PREPARED
        half = request(sent, self._clock, group=GROUP, properties=properties, flags=flags)
        call = self._client.call(target, half, TIMEOUT)
        call.addCallbacks(self._stored, self._lost, callbackArgs=(sent, target), errbackArgs=(sent,))

    def _lost(self, failure: Failure, sent: Sent) -> None:
        self.waiting -= 1
        not_answered(failure)
        self._events.answered(sent)

    def _stored(self, answer: RemotingCommand, sent: Sent, target: str) -> None:
        self.waiting -= 1
        take_answer(sent, (layout.HALF_TOPIC, HALF_QUEUE), answer)
        self._events.answered(sent)
        if sent.place is None or sent.number % 4 >= 2:
            return
        offsets = {
            "tranStateTableOffset": str(sent.place.queue_offset),
            "commitLogOffset": str(sent.place.log_offset),
        }
        self._end(target, offsets, sent)

    def _asked(self, address: str, question: RemotingCommand) -> RemotingCommand | None:
        """What became of that one?"""
        if question.code != RequestCode.CHECK_TRANSACTION_STATE:
            return None
        record = decode_record(question.body)
        assert isinstance(record, Record)
        sent = self._sent[int(record.body)]
        number = sent.number
        if number % 8 >= 6 and number not in self._undecided:
            self._undecided.add(number)
            return None
        offsets = {name: question.ext[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        self._end(address, offsets, sent)
        return None

    def _end(self, target: str, offsets: dict[str, str], half: Sent) -> None:
        decision = layout.SYS_TRANSACTION_COMMIT if half.commits else layout.SYS_TRANSACTION_ROLLBACK
        ext = {"producerGroup": GROUP, "commitOrRollback": str(decision), **offsets}
        end = RemotingCommand(RequestCode.END_TRANSACTION, ext=ext)
        call = self._client.call(target, end, TIMEOUT)
        if half.commits:
            self._ends += 1
            copy = replace(half, number=FIRST_END + self._ends, sent_at=self._clock.seconds())
            copy.code, copy.place, copy.on, copy.durable_on = None, None, set(), set()
            self._events.sent(copy, target)
            call.addCallback(self._committed, copy, int(offsets["commitLogOffset"])).addErrback(
                self._maybe_committed, copy
            )
        call.addErrback(not_answered)

    def _committed(self, answer: RemotingCommand, copy: Sent, half_at: int) -> None:
        """What is answered with success is as safe as a send. The answer doesn't say where it is."""
        if answer.code == ResponseCode.SUCCESS:
            copy.place = self._find(copy, half_at)
            copy.code = None if copy.place is None else answer.code
        self._events.answered(copy)

    def _maybe_committed(self, failure: Failure, copy: Sent) -> None:
        not_answered(failure)
        self._events.answered(copy)


def _commits(number: int) -> bool:
    return number % 2 == 0
