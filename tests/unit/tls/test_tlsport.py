"""A port with TLS and a client that connects to it, in memory: who is served, who is told what is wrong."""

from __future__ import annotations

import contextlib
import ssl
import warnings
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import connectProtocol
from twisted.internet.interfaces import IProtocol, ITransport
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting import server
from hatwisted.remoting.eagerwrite import write_now
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.proxyprotocol import ProxiedFactory
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.tls import handshakes, tlslayer
from hatwisted.tls.certificates import Identity
from hatwisted.tls.contexts import ClientAuth, client_context, server_context
from hatwisted.tls.handshakes import HANDSHAKE_TIMEOUT, Handshakes
from hatwisted.tls.tlsconnecting import TlsConnecting, TlsFailed
from hatwisted.tls.tlslayer import PIECE, RECORD, server_layers
from hatwisted.tls.tlsport import MAX_HELLO, TlsServerFactory
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.networks import allow_list
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.support.certificate import Issued, authority, server_certificate
from tests.support.wireclient import WireClient

ECHO = RequestCode.REGISTER_BROKER
BROKER, ELSEWHERE = "127.0.0.1", "10.0.0.9"


def identity(issued: Issued) -> Identity:
    return Identity((issued.certificate,), issued.key)


class TlsPortCase(SynchronousTestCase):
    plain = True

    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock)
        self.shown = server_certificate()
        self.client_auth, self.server_trust = ClientAuth.NONE, [authority().certificate]
        self.peers: tuple[str, ...] = ()
        self.table = ProcessorTable()
        self.sizes: list[int] = []
        self.table.register(ECHO, lambda connection, command: response(command, body=command.body))
        self.table.register_batch([901], self.batch)
        self.served = RemotingServerFactory(self.table, self.clock)
        self.port = TlsServerFactory(self.served, self.context, self.clock, plain=self.plain)
        self.listening = self.network.host(BROKER).listen(10911, self.port)
        self.addCleanup(self.stop)

    def stop(self) -> None:
        for transport in self.network.transports:
            transport.abortConnection()
        self.listening.stopListening()
        self.settle()
        self.assertEqual(self.port.handshakes.under_way, 0)

    def context(self):  # type: ignore[no-untyped-def]
        return server_context(identity(self.shown), self.server_trust, self.client_auth, self.peers)

    def batch(self, connection, commands) -> None:  # type: ignore[no-untyped-def]
        self.sizes.append(len(commands))

    def settle(self, turns: int = 30) -> None:
        for _ in range(turns):
            self.clock.advance(0)

    def connecting(
        self,
        trust: Issued | None = None,
        own: Issued | None = None,
        verify: bool = True,
        check_host: bool = True,
    ) -> TlsConnecting:
        trusted = [(trust or authority()).certificate]
        context = client_context(identity(own) if own else None, trusted, verify=verify)
        return TlsConnecting(self.network.host(ELSEWHERE), self.clock, lambda: context, check_host=check_host)

    def connect(self, connecting: TlsConnecting | None = None, host: str = BROKER) -> Deferred[IProtocol]:
        endpoint = (connecting or self.connecting()).endpoint(host, 10911, 3)
        connected = endpoint.connect(Factory.forProtocol(WireClient))
        self.settle()
        return connected

    def connect_plainly(self, host: str = ELSEWHERE) -> WireClient:
        endpoint = self.network.host(host).endpoint(BROKER, 10911)
        connected = endpoint.connect(Factory.forProtocol(WireClient))
        self.settle()
        return self.successResultOf(connected)

    def echo(self, client: WireClient, size: int = 100) -> bytes:
        client.send(RemotingCommand(ECHO, 7, body=bytes(size)))
        self.settle()
        return client.commands.pop().body

    def refusal(self, connected: Deferred[IProtocol]) -> str:
        return str(self.failureResultOf(connected, TlsFailed).value)


class PermissiveTests(TlsPortCase):
    def test_B186_encrypted_and_plain_clients_are_served_on_one_port(self) -> None:
        encrypted = self.successResultOf(self.connect())
        plain = self.connect_plainly()
        for client in (encrypted, plain):
            self.assertEqual(len(self.echo(client)), 100)
        self.assertEqual(self.port.handshakes.completed_total, 1)
        self.assertEqual(len(self.served.connections), 2)

    def test_nothing_is_between_a_plain_connection_and_its_protocol(self) -> None:
        client = self.connect_plainly()
        self.echo(client)
        (connection,) = self.served.connections
        self.assertIs(connection.transport.protocol, connection)  # type: ignore[union-attr]

    def test_the_socket_beneath_tls_is_set_as_that_of_a_plain_connection(self) -> None:
        self.patch(server, "READ_SIZE", 12_345)
        self.successResultOf(self.connect())
        self.connect_plainly()
        encrypted, plain = self.served.connections
        for connection in (encrypted, plain):
            carrier = getattr(connection.transport, "below", connection.transport)
            self.assertEqual(carrier.bufferSize, 12_345)
        self.assertIsNot(encrypted.transport, getattr(encrypted.transport, "below", None))

    def test_what_one_read_brings_is_one_batch(self) -> None:
        client = self.successResultOf(self.connect())
        (connection,) = self.served.connections
        connection.transport.bufferSize = 1 << 18  # type: ignore[union-attr]
        frames = [RemotingCommand(901, number, body=bytes(1000)) for number in range(60)]
        client.transport.write(b"".join(map(encode_command, frames)))
        self.settle()
        self.assertEqual(sum(self.sizes), 60)
        self.assertLess(len(self.sizes), 4, "four records of 16 KiB make a batch")

    def test_large_answers_arrive_whole_and_pause_a_client_that_doesnt_read(self) -> None:
        client = self.successResultOf(self.connect())
        self.assertEqual(len(self.echo(client, 3 << 20)), 3 << 20)

    def test_a_client_that_knows_another_authority_is_told_so(self) -> None:
        stranger = self.connecting(trust=Issued(("stranger",), authority=True))
        reason = self.refusal(self.connect(stranger))
        self.assertRegex(
            reason, "the certificate isn't accepted: its authority isn't trusted: name its authority"
        )

    def test_an_expired_certificate_is_named_so(self) -> None:
        self.shown = Issued(("localhost",), signed_by=authority(), days=-1)
        self.assertIn("it has expired", self.refusal(self.connect()))

    def test_the_certificate_must_name_the_host_unless_told_otherwise(self) -> None:
        self.shown = Issued(("broker-a",), signed_by=authority())
        self.assertIn("it doesn't name 127.0.0.1", self.refusal(self.connect()))
        self.successResultOf(self.connect(self.connecting(check_host=False)))
        self.network.names["broker-a"] = BROKER
        self.successResultOf(self.connect(host="broker-a"))

    def test_a_big_write_leaves_in_one_piece_and_of_a_bigger_one_the_first(self) -> None:
        client = self.successResultOf(self.connect())
        pieces: list[int] = []

        def write(transport: ITransport, data: bytes) -> None:
            pieces.append(len(data))
            write_now(transport, data)

        self.patch(tlslayer, "write_now", write)
        for size, at_once in ((100_000, 100_000), (1_000_000, PIECE)):
            pieces.clear()
            self.assertEqual(len(self.echo(client, size)), size)
            bodies = [piece for piece in pieces if piece > RECORD]  # an answer's header leaves before it
            whole = [at_once < piece < at_once + RECORD for piece in bodies]
            self.assertEqual(whole, [True, True], "a request and its answer")

    def test_whoever_verifies_nothing_accepts_anything(self) -> None:
        self.shown = Issued(("nobody",))
        self.successResultOf(self.connect(self.connecting(verify=False, check_host=False)))

    def test_the_next_connection_gets_the_next_context(self) -> None:
        first = self.successResultOf(self.connect())
        self.shown = Issued(("127.0.0.1",), signed_by=authority())
        second = self.successResultOf(self.connect())
        serials = [client.transport.getPeerCertificate().get_serial_number() for client in (first, second)]
        self.assertNotEqual(*serials)
        self.assertEqual(len(self.echo(first)), 100)

    def test_bytes_that_only_begin_like_tls_end_the_connection(self) -> None:
        client = self.connect_plainly()
        self.patch(client, "dataReceived", lambda alert: None)
        client.transport.write(b"\x16\x03\x01\x00\x05hello")
        self.settle()
        self.successResultOf(client.gone)
        self.assertEqual(self.port.handshakes.failed_total, 1)

    def test_a_handshake_has_a_deadline(self) -> None:
        client = self.connect_plainly()
        client.transport.write(b"\x16\x03\x01\x02\x00\x01")
        self.settle()
        self.assertEqual(self.port.handshakes.under_way, 1)
        self.clock.advance(HANDSHAKE_TIMEOUT)
        self.settle()
        self.successResultOf(client.gone)
        self.assertEqual(len(self.served.connections), 0)

    def test_silent_connections_are_no_handshakes(self) -> None:
        client = self.connect_plainly()
        self.clock.advance(HANDSHAKE_TIMEOUT)
        self.settle()
        self.assertNoResult(client.gone)
        self.assertEqual(len(self.echo(client)), 100)

    def test_beyond_the_limit_the_oldest_handshake_goes(self) -> None:
        self.patch(handshakes, "MAX_HANDSHAKES", 3)
        silent = [self.connect_plainly() for _ in range(4)]
        for client in silent:
            client.transport.write(b"\x16\x03")
            self.settle()
        self.successResultOf(silent[0].gone)
        for client in silent[1:]:
            self.assertNoResult(client.gone)
        self.assertEqual(len(self.echo(self.successResultOf(self.connect()))), 100)

    def test_a_hello_that_never_ends_isnt_kept(self) -> None:
        client = self.connect_plainly()
        (connection,) = self.served.connections
        connection.transport.bufferSize = 1 << 18  # type: ignore[union-attr]
        # A record of 16 KiB that begins a ClientHello of 128 KiB, and two that go on with it.
        begun = b"\x16\x03\x01\x40\x00\x01\x01\xff\xff" + bytes(16380)
        more = (b"\x16\x03\x01\x40\x00" + bytes(16384)) * (MAX_HELLO // 16384)
        client.transport.write((begun + more)[: MAX_HELLO + 1])
        self.settle()
        self.successResultOf(client.gone)
        self.assertEqual((self.port.handshakes.failed_total, self.port.handshakes.under_way), (1, 0))

    def test_who_begins_most_handshakes_pushes_out_its_own(self) -> None:
        self.push_out(["10.0.0.66"] * 4)

    def test_a_network_of_ipv6_that_begins_most_of_them_too(self) -> None:
        self.push_out([f"2001:db8::{number}" for number in range(4)])

    def push_out(self, hosts: list[str]) -> None:
        self.patch(handshakes, "MAX_HANDSHAKES", 3)
        honest, *crowd = [self.connect_plainly(host) for host in (ELSEWHERE, *hosts)]
        for client in (honest, *crowd):
            client.transport.write(b"\x16\x03")
            self.settle()
        self.assertNoResult(honest.gone)
        self.assertEqual([client.gone.called for client in crowd], [True, True, False, False])

    def test_a_client_that_gives_up_while_connecting_leaves_nothing(self) -> None:
        self.network.latency = lambda: 1.0
        endpoint = self.connecting().endpoint(BROKER, 10911, 3)
        for seconds in (0.5, 1.5, 2.5):
            connected = endpoint.connect(Factory.forProtocol(WireClient))
            self.clock.advance(seconds)
            connected.cancel()
            self.failureResultOf(connected)
        self.clock.pump([1.0] * 20)
        self.assertEqual((len(self.served.connections), self.port.handshakes.under_way), (0, 0))

    def test_a_server_that_says_nothing_isnt_waited_for_longer_than_the_timeout(self) -> None:
        silent = self.network.host("10.0.0.2").listen(1, Factory.forProtocol(Protocol))
        self.addCleanup(silent.stopListening)
        connected = self.connecting().endpoint("10.0.0.2", 1, 3).connect(Factory.forProtocol(WireClient))
        self.settle()
        self.clock.advance(3)
        self.assertEqual(self.refusal(connected), "no TLS there: the handshake takes too long")


class StandardLibraryClient(Protocol):
    """TLS as Python's own, and no frames: `said` is what the server said."""

    def __init__(self, session: ssl.SSLSession | None, version: ssl.TLSVersion) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority().pem.decode())
        context.maximum_version = context.minimum_version = version
        self.context, self.said = context, b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = session

    def resume(self, former: StandardLibraryClient) -> None:
        """Begin with the session of a former connection."""
        self.context, self._session = former.context, former.tls.session

    def connectionMade(self) -> None:
        self.tls = self.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost", session=self._session
        )
        self.turn(self.tls.do_handshake)

    def turn(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            what()
        self.transport.write(self._outgoing.read())  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        self._incoming.write(data)
        self.turn(self.tls.do_handshake)
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.tls.read(1 << 16):
                self.said += data


class ResumptionTests(TlsPortCase):
    def test_a_session_is_resumed_with_either_version(self) -> None:
        certificate = self.context()
        self.patch(self.port, "layer", server_layers(lambda: certificate, self.clock))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            first = self.greet(StandardLibraryClient(None, version))
            again = StandardLibraryClient(None, version)
            again.resume(first)
            self.assertEqual((first.tls.version(), first.tls.session_reused), (self.name(version), False))
            self.assertTrue(self.greet(again).tls.session_reused)

    def name(self, version: ssl.TLSVersion) -> str:
        return version.name.replace("_", ".")

    def greet(self, client: StandardLibraryClient) -> StandardLibraryClient:
        endpoint = self.network.host(ELSEWHERE).endpoint(BROKER, 10911)
        self.successResultOf(self.settled(connectProtocol(endpoint, client)))
        client.turn(lambda: client.tls.write(encode_command(RemotingCommand(ECHO, 7, body=b"hello"))))
        self.settle()
        self.assertIn(b"hello", client.said)
        return client

    def settled(self, waiting: Deferred[Any]) -> Deferred[Any]:
        self.settle()
        return waiting

    def test_a_close_needs_no_answer(self) -> None:
        client = self.greet(StandardLibraryClient(None, ssl.TLSVersion.TLSv1_3))
        (connection,) = self.served.connections
        connection.close()
        self.settle()
        self.assertEqual(len(self.served.connections), 0)
        self.assertEqual(client.tls.read(1), b"", "an orderly end")

    def test_versions_before_1_2_are_refused(self) -> None:
        client = StandardLibraryClient(None, ssl.TLSVersion.TLSv1_2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client.context.minimum_version = ssl.TLSVersion.TLSv1
            client.context.maximum_version = ssl.TLSVersion.TLSv1_1
        client.context.set_ciphers("ALL:@SECLEVEL=0")
        endpoint = self.network.host(ELSEWHERE).endpoint(BROKER, 10911)
        self.settled(connectProtocol(endpoint, client))
        (alert,) = self.flushLoggedErrors(ssl.SSLError)
        self.assertIn("alert protocol version", alert.getErrorMessage())
        self.assertEqual(self.port.handshakes.failed_total, 1)


class Proxied(StandardLibraryClient):
    """What a proxy passes on: its header, then the client's TLS."""

    def connectionMade(self) -> None:
        self.transport.write(b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 10911\r\n")  # type: ignore[union-attr]
        super().connectionMade()


class BehindProxyTests(TlsPortCase):
    def test_tls_begins_behind_the_header(self) -> None:
        proxies = allow_list(ELSEWHERE)
        assert proxies is not None
        port = self.network.host(BROKER).listen(10921, ProxiedFactory(self.port, proxies, self.clock))
        self.addCleanup(port.stopListening)
        client = Proxied(None, ssl.TLSVersion.TLSv1_3)
        connectProtocol(self.network.host(ELSEWHERE).endpoint(BROKER, 10921), client)
        self.settle()
        self.assertEqual(client.tls.version(), "TLSv1.3")
        self.assertEqual([each.peer for each in self.served.connections], ["192.0.2.7:40000"])


class EnforcingTests(TlsPortCase):
    plain = False

    def test_B186_a_plain_client_is_sent_away(self) -> None:
        client = self.connect_plainly()
        client.send(RemotingCommand(ECHO, 1))
        self.settle()
        self.successResultOf(client.gone)
        self.assertEqual((client.commands, self.port.handshakes.failed_total), ([], 1))
        self.successResultOf(self.connect())

    def test_whoever_sends_nothing_has_the_time_of_a_handshake(self) -> None:
        client = self.connect_plainly()
        self.clock.advance(HANDSHAKE_TIMEOUT)
        self.settle()
        self.successResultOf(client.gone)

    def test_clients_without_a_known_certificate_are_refused_where_one_is_required(self) -> None:
        self.client_auth = ClientAuth.REQUIRE
        known = Issued(("client",), signed_by=authority())
        self.assertEqual(len(self.echo(self.successResultOf(self.connect(self.connecting(own=known))))), 100)
        for own in (None, Issued(("stranger",))):
            # TLS 1.3: the client has its keys before the server has looked at its certificate.
            client = self.successResultOf(self.connect(self.connecting(own=own)))
            self.settle()
            self.successResultOf(client.gone)
        self.assertEqual(self.port.handshakes.failed_total, 2)
        self.assertEqual(len(self.served.connections), 1)

    def test_an_optional_certificate_may_be_missing_but_not_wrong(self) -> None:
        self.client_auth = ClientAuth.OPTIONAL
        self.assertEqual(len(self.echo(self.successResultOf(self.connect()))), 100)
        stranger = self.successResultOf(self.connect(self.connecting(own=Issued(("stranger",)))))
        self.settle()
        self.successResultOf(stranger.gone)

    def test_of_known_clients_those_with_an_expected_name_are_let_in(self) -> None:
        self.client_auth, self.peers = ClientAuth.REQUIRE, ("slave-1", "10.0.0.7")
        for names, let_in in (
            (("slave-1",), True),
            (("backup", "slave-1"), True),
            (("backup", "10.0.0.7"), True),
            (("slave-2",), False),
            (("slave-1.example.com",), False),
        ):
            own = Issued(names, signed_by=authority())
            client = self.successResultOf(self.connect(self.connecting(own=own)))
            self.settle()
            (self.assertNoResult if let_in else self.successResultOf)(client.gone)
        unknown = self.successResultOf(self.connect(self.connecting(own=Issued(("slave-1",)))))
        self.settle()
        self.successResultOf(unknown.gone)
        self.assertEqual(self.port.handshakes.failed_total, 3)

    def test_of_known_servers_those_with_an_expected_name_are_accepted(self) -> None:
        for peers in ("localhost", "master-1"):
            context = client_context(None, [authority().certificate], peers=[peers])
            connecting = TlsConnecting(
                self.network.host(ELSEWHERE), self.clock, lambda context=context: context
            )
            connected = self.connect(connecting)
            if peers == "localhost":
                self.successResultOf(connected)
            else:
                self.assertIn(
                    "it's for '127.0.0.1', 'localhost', who isn't expected", self.refusal(connected)
                )

    def test_any_certificate_will_do_where_no_authority_is_named(self) -> None:
        self.client_auth, self.server_trust = ClientAuth.REQUIRE, None  # type: ignore[assignment]
        stranger = self.connecting(own=Issued(("stranger",)))
        self.assertEqual(len(self.echo(self.successResultOf(self.connect(stranger)))), 100)


class HandshakesTests(SynchronousTestCase):
    def test_the_log_has_a_line_a_minute_for_each_host(self) -> None:
        seen: list[str] = []
        observer = lambda event: seen.append(event["peer"])  # noqa: E731
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        under_test = Handshakes(Clock())
        for port in range(5):
            under_test.failed(f"10.0.0.1:{port}", "why")
        under_test.failed("10.0.0.2:1", "why")
        self.assertEqual(seen, ["10.0.0.1:0", "10.0.0.2:1"])
        self.assertEqual(under_test.failed_total, 6)
