"""Channels without a socket: when they dial, what is reported to whom, and what ends with a connection."""

from __future__ import annotations

import struct
from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.calls import (
    CLOSE_LINGER,
    GRACE,
    MAX_CALLS,
    SILENT_CALLS,
    Channel,
    ChannelTable,
)
from hatwisted.clientcore.driver import StandardLog
from hatwisted.clientcore.errors import (
    BadSetting,
    CallTimedOut,
    ConnectFailed,
    ConnectionGone,
    TooManyCalls,
)
from hatwisted.clientcore.tasks import Waiter
from hatwisted.wire.remoting import (
    MAX_ANSWER_HEADER,
    MAX_HEADER,
    RemotingCommand,
    RemotingReceiver,
    encode_command,
)

BROKER = "10.0.0.1:10911"
ROUTE = 105


class Wire:
    """A Socket that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[RemotingCommand] = []
        self.ended: list[str] = []
        self._receiver = RemotingReceiver()

    def write(self, data: bytes) -> None:
        self.written += self._receiver.receive(data)

    def close(self) -> None:
        self.ended.append("closed")

    def abort(self) -> None:
        self.ended.append("aborted")


class ChannelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.dialled: list[tuple[Channel, str, int]] = []
        self.called_off = 0
        self.refuse = False
        self.lost: list[str] = []
        self.asked: list[RemotingCommand] = []
        self.table = ChannelTable(self.clock.callLater, self.dial, StandardLog("tests"))
        self.table.serve(self.on_request, self.lost.append)

    def dial(self, channel: Channel, host: str, port: int) -> Callable[[], object]:
        self.dialled.append((channel, host, port))
        if self.refuse:
            channel.not_connected("refused at once")
        return self.call_off

    def call_off(self) -> None:
        self.called_off += 1

    def on_request(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        self.asked.append(request)
        return RemotingCommand(0, body=b"told") if request.code == 307 else None

    def call(self, body: bytes = b"", timeout: float = 3) -> Waiter[RemotingCommand]:
        return self.table.call(BROKER, RemotingCommand(ROUTE, body=body), timeout)

    def connect(self) -> tuple[Channel, Wire]:
        channel, wire = self.dialled[-1][0], Wire()
        channel.connected(wire)
        return channel, wire

    def answer(self, channel: Channel, request: RemotingCommand, body: bytes = b"") -> None:
        channel.received(encode_command(RemotingCommand(0, opaque=request.opaque, flag=1, body=body)))

    def test_it_dials_for_the_first_call_and_sends_all_that_waited_in_order(self) -> None:
        calls = [self.call(b"%d" % number) for number in range(3)]
        self.assertEqual([each[1:] for each in self.dialled], [("10.0.0.1", 10911)])
        channel, wire = self.connect()
        self.assertEqual([each.body for each in wire.written], [b"0", b"1", b"2"])
        for request in reversed(wire.written):
            self.answer(channel, request, b"to " + request.body)
        self.assertEqual([each.result().body for each in calls], [b"to 0", b"to 1", b"to 2"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_refused_at_once_the_call_fails_and_the_next_one_dials_again(self) -> None:
        self.refuse = True
        for number in (1, 2):
            error = self.assertRaises(ConnectFailed, self.call().result)
            self.assertEqual(str(error), f"{BROKER}: can't connect: refused at once")
            self.assertEqual(len(self.dialled), number)

    def test_an_answer_in_pieces_and_one_that_comes_too_late(self) -> None:
        first = self.call()
        channel, wire = self.connect()
        self.clock.advance(3)
        self.clock.advance(0)
        self.assertRaises(CallTimedOut, first.result)
        self.answer(channel, wire.written[0])
        second = self.call()
        frame = encode_command(RemotingCommand(0, opaque=wire.written[1].opaque, flag=1))
        for at in range(len(frame)):
            self.assertFalse(second.done)
            channel.received(frame[at : at + 1])
        self.assertEqual(second.result().code, 0)

    def test_silence_drops_the_socket_and_one_byte_is_no_silence(self) -> None:
        self.call()
        channel, wire = self.connect()
        for number in range(SILENT_CALLS):
            if number:
                self.call()
            self.clock.advance(3)
            self.clock.advance(0)
            if number == 0:
                channel.received(b"\0")
        self.assertEqual(wire.ended, [])
        self.call()
        self.clock.advance(3)
        self.clock.advance(0)
        self.assertEqual(wire.ended, ["aborted"])

    def test_a_lost_connection_fails_its_calls_and_is_reported_once(self) -> None:
        call = self.call()
        channel, _ = self.connect()
        channel.disconnected("reset")
        self.assertRaises(ConnectionGone, call.result)
        self.assertEqual(self.lost, [BROKER])
        self.call()
        self.assertEqual(len(self.dialled), 2)

    def test_calls_and_waiting_frames_are_bounded(self) -> None:
        calls = [self.call() for _ in range(MAX_CALLS)]
        error = self.assertRaises(TooManyCalls, self.call().result)
        self.assertEqual(str(error), f"{BROKER}: {MAX_CALLS} calls are waiting for answers")
        error = self.assertRaises(TooManyCalls, self.table.oneway, BROKER, RemotingCommand(ROUTE))
        self.assertEqual(str(error), f"{BROKER}: {MAX_CALLS} requests are waiting for the connection")
        for each in calls:
            each.give_up()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_headers_of_answers_may_be_larger_than_those_of_requests_and_have_an_end(self) -> None:
        self.call()
        channel, wire = self.connect()
        channel.received(struct.pack(">ii", MAX_ANSWER_HEADER + 4, MAX_ANSWER_HEADER))
        self.assertGreater(MAX_ANSWER_HEADER, MAX_HEADER)
        self.assertEqual(wire.ended, [])
        channel.disconnected("gone")
        self.call()
        channel, wire = self.connect()
        channel.received(struct.pack(">ii", MAX_ANSWER_HEADER + 5, MAX_ANSWER_HEADER + 1))
        self.assertEqual(wire.ended, ["aborted"])

    def test_servers_are_answered_on_the_connection_that_asked(self) -> None:
        self.call()
        channel, wire = self.connect()
        for code, flag in ((307, 0), (999, 0), (40, 2)):
            channel.received(encode_command(RemotingCommand(code, opaque=7, flag=flag)))
        self.assertEqual([each.code for each in self.asked], [307, 999, 40])
        answers = wire.written[1:]
        self.assertEqual(
            [(each.opaque, each.code, each.body) for each in answers], [(7, 0, b"told"), (7, 3, b"")]
        )

    def test_closing_calls_off_what_dials_and_waits_for_what_is_open(self) -> None:
        dialling = self.call()
        open_call = self.table.call("10.0.0.2:10911", RemotingCommand(ROUTE), 3)
        channel, wire = self.connect()
        closed = self.table.close()
        self.assertEqual((self.called_off, wire.ended, closed.done), (1, ["closed"], False))
        for call in (dialling, open_call):
            self.assertRaises(ConnectionGone, call.result)
        channel.disconnected("closed")
        self.assertEqual((closed.done, self.lost), (True, []))
        error = self.assertRaises(ConnectFailed, self.call().result)
        self.assertEqual(str(error), f"{BROKER}: this client is closed")

    def test_a_server_that_takes_nothing_any_more_holds_a_close_up_no_longer_than_the_linger(self) -> None:
        self.call()
        channel, wire = self.connect()
        closed = self.table.close()
        self.clock.advance(CLOSE_LINGER - 0.1)
        self.assertEqual((wire.ended, closed.done), (["closed"], False))
        self.clock.advance(0.1)
        self.assertEqual(wire.ended, ["closed", "aborted"])
        channel.disconnected("aborted")
        self.assertTrue(closed.done)

    def test_a_close_that_ends_in_time_leaves_no_timer(self) -> None:
        self.call()
        channel, wire = self.connect()
        self.table.close()
        channel.disconnected("closed")
        self.assertEqual((wire.ended, self.clock.getDelayedCalls()), (["closed"], []))

    def test_bytes_that_came_while_the_time_ran_out_give_the_call_a_grace(self) -> None:
        for answered in (True, False):
            call = self.call()
            channel, wire = self.connect()
            frame = encode_command(RemotingCommand(0, opaque=wire.written[0].opaque, flag=1))
            # Between the call's timer and the look that it takes a turn later.
            self.clock.callLater(3, channel.received, frame[:5])
            self.clock.advance(3)
            self.clock.advance(GRACE - 0.1)
            self.assertFalse(call.done)
            if answered:
                channel.received(frame[5:])
                self.assertEqual(call.result().code, 0)
            else:
                self.clock.advance(0.1)
                late = self.assertRaises(CallTimedOut, call.result)
                self.assertEqual(str(late), f"{BROKER}: no answer to request {ROUTE} within 3 s")
            channel.disconnected("reset")
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_question_that_nobody_is_up_to_is_answered_as_an_error_now_or_later(self) -> None:
        told: list[tuple[str, BaseException]] = []

        def exception(format: str, error: BaseException, **fields: object) -> None:
            told.append((format.format(**fields), error))

        self.patch(self.table.log, "exception", exception)
        error, late = ValueError("bad"), Waiter[RemotingCommand]()

        def ask(address: str, request: RemotingCommand) -> Waiter[RemotingCommand]:
            if request.code == 307:
                raise error
            return late

        self.table.serve(ask, self.lost.append)
        self.call()
        channel, wire = self.connect()
        for code in (307, 309):
            channel.received(encode_command(RemotingCommand(code, opaque=code)))
        late.fail(error)
        answers = [(each.opaque, each.code, each.flag, each.remark) for each in wire.written[1:]]
        self.assertEqual(answers, [(code, 1, 1, f"request {code}: bad") for code in (307, 309)])
        self.assertEqual(told, [(f"request {code} of {BROKER}", error) for code in (307, 309)])

    def test_a_late_answer_isnt_sent_on_another_connection(self) -> None:
        late = Waiter[RemotingCommand]()
        self.table.serve(lambda address, request: late, self.lost.append)
        self.call()
        channel, first = self.connect()
        channel.received(encode_command(RemotingCommand(309, opaque=7)))
        channel.disconnected("reset")
        self.call()
        channel, second = self.connect()
        late.fire(RemotingCommand(0))
        self.assertEqual((len(first.written), len(second.written)), (1, 1))

    def test_what_isnt_the_protocol_costs_the_connection(self) -> None:
        said: list[str] = []
        self.patch(self.table.log, "warn", lambda format, **fields: said.append(format.format(**fields)))
        self.call()
        channel, wire = self.connect()
        channel.received(b"HTTP/1.1 400 Bad Request")
        self.assertEqual(wire.ended, ["aborted"])
        self.assertTrue(said[0].startswith(f"{BROKER} doesn't speak the remoting protocol: "), said)

    def test_oneways_are_marked_and_numbered_and_wait_for_the_socket(self) -> None:
        self.table.oneway(BROKER, RemotingCommand(37, body=b"a"))
        self.call(b"b")
        self.assertEqual(len(self.dialled), 1)
        _, wire = self.connect()
        self.table.oneway(BROKER, RemotingCommand(37, body=b"c"))
        self.assertEqual([each.body for each in wire.written], [b"a", b"b", b"c"])
        self.assertEqual([each.flag & 2 for each in wire.written], [2, 0, 2])
        self.assertEqual([each.opaque for each in wire.written], [1, 2, 3])

    def test_numbers_of_requests_stay_above_zero(self) -> None:
        self.call()
        channel, wire = self.connect()
        channel._opaque = 0x7FFFFFFE
        for _ in range(2):
            self.call()
        self.assertEqual([each.opaque for each in wire.written], [1, 0x7FFFFFFF, 0])

    def test_nobody_serves_before_somebody_says_so(self) -> None:
        table = ChannelTable(self.clock.callLater, self.dial, StandardLog("tests"))
        table.call(BROKER, RemotingCommand(ROUTE), 3)
        channel, wire = self.connect()
        channel.received(encode_command(RemotingCommand(307, opaque=7)))
        answer = wire.written[1]
        self.assertEqual((answer.code, answer.remark), (3, " request type 307 not supported"))
        channel.disconnected("reset")

    def test_an_address_that_is_none_is_the_callers_mistake(self) -> None:
        for address in ("nowhere", "h:0", ":1", ""):
            self.assertRaises(BadSetting, self.table.call(address, RemotingCommand(ROUTE), 3).result)
