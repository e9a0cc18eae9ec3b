"""One connection: pairing by number, deadlines, and what isn't an answer."""

from __future__ import annotations

import base64
import functools
import pickle
import select
import socket
import ssl
import tempfile
from dataclasses import replace
from itertools import chain, count, repeat
from pathlib import Path
from unittest import TestCase

from hatwisted.blocking.connection import MAX_IN_FLIGHT, Connection
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.address import parse_address, split_addresses
from hatwisted.clientcore.command import command
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadAnswer, BadSetting, BrokerGone, Refused
from hatwisted.clientcore.tls import Tls
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand, encode_command
from hatwisted.wire.signing import SecretKey, signed_bytes
from tests.support.certificate import make_certificate
from tests.support.scriptedgroup import (
    HANG_UP,
    SILENCE,
    ScriptedBroker,
    ScriptedServer,
    response,
)

SETTINGS = ClusterSettings(
    name_servers=("127.0.0.1:1",), connect_timeout=30.0, answer_timeout=30.0, retries=0
)
"""Time enough for every answer that's meant to come; who means none says so."""


class Echo(ScriptedServer):
    """Answers with the field `say` as the remark."""

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        return response(request, 0, request.ext["say"])


class ConnectionTest(TestCase):
    def setUp(self) -> None:
        self.server = Echo()
        self.addCleanup(self.server.stop)

    def connect(self, **settings: object) -> Connection:
        connection = Connection(self.server.address, replace(SETTINGS, **settings))  # type: ignore[arg-type]
        self.addCleanup(connection.close)
        return connection

    def test_answers_are_paired_by_number_whatever_their_order(self) -> None:
        connection = self.connect()
        numbers = [connection.post(command(RequestCode.HEART_BEAT, {"say": each})) for each in range(10)]
        for each in (9, 0, 5, 4, 3, 2, 1, 8, 7, 6):
            self.assertEqual(connection.answer(numbers[each]).remark, str(each))

    def test_numbers_begin_again_where_an_int32_ends(self) -> None:
        connection = self.connect()
        connection._numbers = count((1 << 31) - 1)
        numbers = [connection.post(command(1, {"say": each})) for each in "abc"]
        self.assertEqual(numbers, [(1 << 31) - 1, 0, 1])
        self.assertEqual([connection.answer(number).remark for number in numbers], ["a", "b", "c"])

    def test_an_answer_that_never_comes(self) -> None:
        self.server.script = lambda request: SILENCE
        with self.assertRaisesRegex(BrokerGone, f"{self.server.address}: no answer within 0.1 s"):
            self.connect(answer_timeout=0.1).call(command(1, {"say": "x"}))

    def test_a_dribbling_server_has_the_same_deadline(self) -> None:
        """Other answers keep arriving; the one that is waited for doesn't."""
        moments = iter([0.0, *(4.9 + number / 200 for number in range(100))])
        connection = Connection(
            self.server.address, replace(SETTINGS, answer_timeout=5), clock=lambda: next(moments)
        )
        self.addCleanup(connection.close)
        self.server.script = lambda request: (
            response(request, 0, "other", b"", n=1) if request.opaque > 1 else SILENCE
        )
        first = connection.post(command(1, {"say": "x"}))
        for _ in range(20):
            connection.post(command(1, {"say": "y"}))
        with self.assertRaisesRegex(BrokerGone, "no answer within 5 s"):
            connection.answer(first)
            connection.answer(first)

    def test_an_answer_that_came_while_the_process_stood_still(self) -> None:
        moments = chain([0.0], repeat(100.0))
        connection = Connection(self.server.address, SETTINGS, clock=lambda: next(moments))
        self.addCleanup(connection.close)
        self.server.script = lambda request: response(request, 0, "late", bytes(2 << 20))
        number = connection.post(command(1, {"say": "x"}))
        arrived = select.poll()
        arrived.register(connection._socket, select.POLLIN)
        self.assertTrue(arrived.poll(30_000))
        self.assertEqual(connection.answer(number).remark, "late")

    def test_a_server_that_hangs_up(self) -> None:
        self.server.script = lambda request: HANG_UP
        with self.assertRaisesRegex(BrokerGone, "closed the connection with 1 requests unanswered"):
            self.connect().call(command(1, {"say": "x"}))

    def test_one_that_the_server_has_closed_while_it_was_idle_is_dialled_again(self) -> None:
        """Brokers close a connection without a word of two minutes, and a script may pause for longer."""
        driver = BlockingDriver(Links(SETTINGS))
        self.addCleanup(driver.close)
        for said in "abc":
            self.assertEqual(driver.ask(self.server.address, command(1, {"say": said})).remark, said)
            self.server.hang_up()
        self.assertEqual(self.server.connections, 3)

    def test_nobody_there(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody else's, and nobody listens
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with self.assertRaisesRegex(BrokerGone, f"{address}: can't be reached: connection refused"):
                Connection(address, SETTINGS)

    def test_requests_of_the_broker_and_unasked_answers_are_passed_over(self) -> None:
        def script(request: RemotingCommand) -> RemotingCommand:
            return response(request, 0, request.ext["say"])

        self.server.script = script
        connection = self.connect()
        connection.call(command(1, {"say": "x"}))
        peer = self.server._sockets[0]
        peer.sendall(encode_command(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=2)))
        peer.sendall(encode_command(RemotingCommand(0, opaque=77, flag=1)))
        self.assertEqual(connection.call(command(1, {"say": "y"})).remark, "y")

    def test_another_protocol(self) -> None:
        connection = self.connect()
        connection.call(command(1, {"say": "x"}))
        self.server._sockets[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with self.assertRaisesRegex(BadAnswer, "isn't RocketMQ's"):
            connection.call(command(1, {"say": "y"}))

    def test_the_number_of_requests_under_way_has_a_limit(self) -> None:
        connection = self.connect()
        for each in range(MAX_IN_FLIGHT):
            connection.post(command(1, {"say": each}))
        with self.assertRaises(AssertionError):
            connection.post(command(1, {"say": "more"}))

    def test_more_calls_than_the_limit(self) -> None:
        with BlockingDriver(Links(SETTINGS)) as driver:
            requests = [command(1, {"say": each}) for each in range(MAX_IN_FLIGHT * 3)]
            answers = driver.ask_all(self.server.address, requests)
        self.assertEqual([each.remark for each in answers], [str(each) for each in range(MAX_IN_FLIGHT * 3)])


class SigningTest(TestCase):
    def test_the_values_in_the_order_of_their_names_and_the_body(self) -> None:
        """RFC 2202's second test vector, spread over fields and body."""
        ext = {"b": "ya want ", "a": "what do ", "Signature": "an old one"}
        request = RemotingCommand(11, ext=ext, body=b"for nothing?")
        vector = bytes.fromhex("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
        self.assertEqual(
            SecretKey("Jefe").signature(signed_bytes(request.ext, request.body)),
            base64.b64encode(vector).decode(),
        )

    def test_what_an_account_adds(self) -> None:
        request = RemotingCommand(11, ext={"topic": "T"})
        Credentials("me", "secret", "token").sign(request)
        self.assertEqual((request.ext["AccessKey"], request.ext["SecurityToken"]), ("me", "token"))
        plain = RemotingCommand(11, ext={"x": "metokenT"})
        self.assertEqual(
            request.ext["Signature"], SecretKey("secret").signature(signed_bytes(plain.ext, plain.body))
        )

    def test_every_request_is_signed_and_the_secret_never_shown(self) -> None:
        account = Credentials("me", "hush-hush", "token-token")
        settings = replace(SETTINGS, credentials=account, tls=Tls(key_password="pass-pass"))
        for secret in ("hush-hush", "token-token", "pass-pass"):
            self.assertNotIn(secret, repr(settings))
        with (
            ScriptedBroker(range(3)) as broker,
            BlockingDriver(Links(replace(SETTINGS, credentials=account))) as driver,
        ):
            driver.ask(broker.address, command(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0}))
            (request,) = broker.requests
        told = request.ext.pop("Signature")
        self.assertEqual(told, SecretKey("hush-hush").signature(signed_bytes(request.ext, request.body)))


class TlsTest(TestCase):
    """Against the standard library's own server side, with certificates made by OpenSSL."""

    def setUp(self) -> None:
        self.folder = Path(certificates().name)

    def serve(self, ask_client: bool = False) -> ScriptedBroker:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.folder / "client.pem")
        broker = ScriptedBroker(range(3), tls=context)
        self.addCleanup(broker.stop)
        return broker

    def high(self, broker: ScriptedBroker, tls: Tls) -> str:
        with BlockingDriver(Links(replace(SETTINGS, tls=tls))) as driver:
            request = command(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
            return driver.ask(broker.address, request).ext["offset"]

    def test_an_unknown_authority_is_refused(self) -> None:
        with self.assertRaisesRegex(
            BadSetting, r"127.0.0.1:\d+: its certificate isn't accepted \(.*trust file"
        ):
            self.high(self.serve(), Tls())

    def test_a_trusted_one_with_another_name_is_refused(self) -> None:
        with self.assertRaisesRegex(BadSetting, "IP address mismatch.*chain: any host name"):
            self.high(self.serve(), Tls(trust_file=str(self.folder / "server.pem")))

    def test_a_trusted_one_whatever_its_name(self) -> None:
        tls = Tls(trust_file=str(self.folder / "server.pem"), verify="chain")
        self.assertEqual(self.high(self.serve(), tls), "3")

    def test_none_checked(self) -> None:
        self.assertEqual(self.high(self.serve(), Tls(verify="none")), "3")

    def test_one_that_was_closed_while_it_was_idle_is_dialled_again(self) -> None:
        broker = self.serve()
        with BlockingDriver(Links(replace(SETTINGS, tls=Tls(verify="none")))) as driver:
            request = command(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
            for connections in (1, 1, 2):
                self.assertEqual(driver.ask(broker.address, request).ext["offset"], "3")
                self.assertEqual(broker.connections, connections)
                if len(broker.requests) == 2:
                    broker.hang_up()

    def test_a_client_certificate(self) -> None:
        shown = Tls(
            certificate=str(self.folder / "client.pem"), key=str(self.folder / "client.key"), verify="none"
        )
        self.assertEqual(self.high(self.serve(ask_client=True), shown), "3")
        with self.assertRaises(BrokerGone):
            self.high(self.serve(ask_client=True), Tls(verify="none"))

    def test_a_server_without_tls(self) -> None:
        settings = replace(SETTINGS, tls=Tls(verify="none"), connect_timeout=0.5)
        with ScriptedBroker(range(3)) as plain, BlockingDriver(Links(settings)) as driver:
            self.assertRaises(BrokerGone, driver.ask, plain.address, command(1))

    def test_files_that_are_none(self) -> None:
        missing = str(self.folder / "missing.pem")
        with self.assertRaisesRegex(BadSetting, f"trust file {missing}: No such file"):
            Tls(trust_file=missing).context()
        with self.assertRaisesRegex(BadSetting, f"client certificate {missing}: No such file"):
            Tls(certificate=missing).context()
        key = str(self.folder / "server.key")
        with self.assertRaisesRegex(BadSetting, f"client certificate {key}.*PEM"):
            Tls(certificate=key).context()


@functools.cache
def certificates() -> tempfile.TemporaryDirectory[str]:
    """A folder with server.pem, server.key, client.pem and client.key; gone when the process ends."""
    folder: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory()
    for name in ("server", "client"):
        make_certificate(Path(folder.name), name)
    return folder


class SettingsTest(TestCase):
    def test_addresses(self) -> None:
        self.assertEqual(parse_address("host.example:9876"), ("host.example", 9876))
        self.assertEqual(parse_address("[fe80::1]:9876"), ("fe80::1", 9876))
        for wrong in (
            "",
            "host",
            "host:",
            ":9876",
            "host:0",
            "host:65536",
            "host:x",
            "::1:9876",
            "http://h:1",
        ):
            with self.assertRaisesRegex(BadSetting, "isn't host:port"):
                parse_address(wrong)
        self.assertEqual(split_addresses(" a:1; b:2,a:1;"), ("a:1", "b:2"))

    def test_no_name_server(self) -> None:
        with self.assertRaisesRegex(BadSetting, "no name server"):
            ClusterSettings(name_servers=())

    def test_errors_cross_process_borders(self) -> None:
        refused = Refused.of("h:1", RemotingCommand(16, flag=1, remark="no"), "a pull")
        copy = pickle.loads(pickle.dumps(refused))
        self.assertEqual((str(copy), copy.code, copy.lasting), (str(refused), 16, True))
