"""Coroutines without an event loop: what the client's logic waits for, and how it goes on.

The logic of producers and consumers is written as coroutines, but must run on Twisted, on asyncio and on blocking
sockets. So it awaits `Waiter`s only, and a `Task` steps it. Whoever drives the client (`driver.py`) fires
waiters as answers and timers come; a task goes on at once, inside that call, in the same order on every
driver.

Rejected: one logic for each event loop (three places to maintain), and asyncio under Twisted's reactor (two
loops).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

Work = Coroutine["Waiter[Any]", Any, T]
"""A coroutine that awaits waiters only."""


class Cancelled(BaseException):
    """Thrown into a task that is to end; nothing that says `except Exception` takes it for a failure."""


class Waiter(Generic[T]):
    """One value, or an error, that is to come. on_cancel: called once if the task that waits is cancelled."""

    __slots__ = ("_done", "_error", "_listeners", "_on_cancel", "_value")

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        self._done = False
        self._value: T
        self._error: BaseException | None = None
        self._listeners: tuple[Callable[[Any], object], ...] = ()
        self._on_cancel = on_cancel

    @property
    def done(self) -> bool:
        """Has it come?"""
        return self._done

    def fire(self, value: T) -> None:
        """Here it is; whoever waits goes on before this returns."""
        if not self._done:
            self._value = value
            self._end()

    def fail(self, error: BaseException) -> None:
        """It won't come."""
        if not self._done:
            self._error = error
            self._end()

    def result(self) -> T:
        """What came; raises the error that came instead. Only once it's done."""
        assert self._done, "not finished yet"
        if self._error is not None:
            raise self._error
        return self._value

    def when_done(self, listener: Callable[[Waiter[T]], object]) -> None:
        """`listener(this)` when it has come; at once, if it has."""
        if self._done:
            listener(self)
        else:
            self._listeners += (listener,)

    def forget(self, listener: Callable[[Waiter[T]], object]) -> None:
        """Don't call `listener`, which gave it up."""
        self._listeners = tuple(each for each in self._listeners if each != listener)
        self.give_up()

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        if self._on_cancel is not None and not self._done:
            on_cancel, self._on_cancel = self._on_cancel, None
            on_cancel()

    def __await__(self) -> Generator[Waiter[T], None, T]:
        if not self._done:
            yield self
        return self.result()

    def _end(self) -> None:
        self._done = True
        # Mostly it leads back here: kept, each wait would be left to the garbage collector.
        self._on_cancel = None
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            listener(self)


class Task(Waiter[T]):
    """A coroutine under way; itself something to wait for. Runs from its construction to its first wait."""

    __slots__ = ("_awaited", "_to_end", "_work")

    def __init__(self, work: Work[T]) -> None:
        super().__init__()
        self._work = work
        self._to_end = False
        self._awaited: Waiter[Any] | None = None
        self._step()

    def cancel(self) -> None:
        """Throw Cancelled into it where it waits; it's over, and failed with that, unless it catches it. A task
        that has ended stays as it is."""
        awaited = self._awaited
        if awaited is None:  # it's running: what it calls wants its end
            self._to_end = True
            return
        self._awaited = None
        awaited.forget(self._go_on)
        self._step(Cancelled())

    def _go_on(self, awaited: Waiter[Any]) -> None:
        self._awaited = None
        self._step()

    def _step(self, error: BaseException | None = None) -> None:
        # Its end is announced outside the except clauses, so that nobody who hears of it is handling an exception.
        failure: BaseException | None = None
        try:
            awaited = self._work.send(None) if error is None else self._work.throw(error)
        except StopIteration as end:
            value = end.value
        except (Cancelled, Exception) as raised:
            failure = raised
        else:
            assert isinstance(awaited, Waiter), f"{awaited!r} was awaited, which no driver has adopted"
            self._awaited = awaited
            awaited.when_done(self._go_on)
            if self._to_end:
                self._to_end = False
                self.cancel()
            return
        if failure is None:
            self.fire(value)
        else:
            self.fail(failure)


class Lock:
    """One at a time, in the order they came."""

    def __init__(self) -> None:
        self.locked = False
        self._line: deque[Waiter[None]] = deque()

    @property
    def waiting(self) -> bool:
        """Does anybody stand in line?"""
        return bool(self._line)

    async def __aenter__(self) -> None:
        if self.locked:
            turn: Waiter[None] = Waiter(lambda: self._line.remove(turn))
            self._line.append(turn)
            await turn
        self.locked = True

    async def __aexit__(self, *_: object) -> None:
        if self._line:
            self._line.popleft().fire(None)
        else:
            self.locked = False


async def gather(works: Iterable[Work[T]]) -> list[T]:
    """The results of all, which run concurrently. Raises the first error in their order, when those before it
    have ended; the others go on."""
    return [await task for task in [Task(work) for work in works]]


async def settle_all(works: Iterable[Work[Any]]) -> None:
    """Wait for the end of all, however they end."""
    for task in [Task(work) for work in works]:
        try:
            await task
        except Exception:
            continue


class Timer(Protocol):
    """A call that is to be made later."""

    def cancel(self) -> None:
        """Don't; only while it's to be made."""


class Clock(Protocol):
    """The logic's clock."""

    def seconds(self) -> float:
        """Since the epoch, on a clock that follows the system's."""

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """Call `work` after this many seconds."""


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait."""
    over: Waiter[None] = Waiter(lambda: timer.cancel())
    timer = clock.call_later(seconds, lambda: over.fire(None))
    await over


async def ends_within(clock: Clock, waited: Waiter[Any], seconds: float) -> bool:
    """Does a wait end in time, however it ends? What is waited for isn't cancelled.

    - clock: the driver's
    - waited: for
    - seconds: it may take
    """
    ended: Waiter[bool] = Waiter()
    timer = clock.call_later(seconds, lambda: ended.fire(False))

    def done(_: object) -> None:
        if not ended.done:
            timer.cancel()
            ended.fire(True)

    waited.when_done(done)
    return await ended
