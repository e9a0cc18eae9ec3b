"""Whole nodes whose ports and calls are encrypted: who gets through, what a wrong file says, renewal."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.nameserver import embed_name_server
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.api import BadSetting, Message, NoNameServer, Tls
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole
from hatwisted.config.tlskeys import TlsMode
from hatwisted.tls.certificatefiles import WATCH_INTERVAL
from tests.support.certificate import Issued, authority
from tests.support.memorynode import NAME_SERVER, MemoryNodes

MASTER, SLAVE, CLIENT = "10.0.0.1", "10.0.0.2", "10.0.0.50"


class EncryptionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.folder = self.nodes.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.issue("server", MASTER, "10.0.0.9")
        authority().write(self.folder, "authority")
        self.shown = {
            "tls_server_mode": TlsMode.ENFORCING,
            "tls_server_cert_path": self.path("server.pem"),
            "tls_server_key_path": self.path("server.key"),
        }
        self.verified = {
            "tls_client_auth_server": True,
            "tls_client_trust_cert_path": self.path("authority.pem"),
        }

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def issue(self, name: str, *hosts: str) -> Issued:
        issued = Issued(hosts, signed_by=authority())
        issued.write(self.folder, name)
        return issued

    def cluster(self, tls: Tls | None) -> Cluster:
        network = self.nodes.network.host(CLIENT)
        made = Cluster(self.nodes.clock, NAME_SERVER, connecting=network, tls=tls)
        self.addCleanup(lambda: self.nodes.result(made.close(), 60))
        return made

    def trusting(self, **more: Any) -> Tls:
        return Tls(trust_file=self.path("authority.pem"), **more)

    def send(self, cluster: Cluster) -> Any:
        return self.nodes.result(cluster.producer("p").send(Message(topic="T", body=b"x")), 60)


class GroupTests(EncryptionCase):
    def test_a_cluster_that_speaks_tls_alone(self) -> None:
        self.nodes.start_name_server(**self.shown)
        every = self.shown | self.verified | {"namesrv_addr": NAME_SERVER}
        self.nodes.start(MASTER, **every)
        slave = self.nodes.start(SLAVE, broker_role=BrokerRole.SLAVE, broker_id=1, **every)
        self.nodes.pass_time(5)
        self.send(self.cluster(self.trusting()))
        self.nodes.pass_time(15)
        self.assertIsNotNone(slave.parts.tables.topics.get("T"), "a slave asks its master over TLS as well")
        self.assertRaises(NoNameServer, self.send, self.cluster(None))

    def test_a_broker_trusts_nobody_else(self) -> None:
        self.names = self.nodes.start_name_server(**self.shown)
        Issued(("stranger",), authority=True).write(self.folder, "authority")
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER, **self.shown | self.verified)
        self.nodes.pass_time(5)
        self.assertIsNone(self.names.routes.group("broker-a"))

    def test_out_of_the_box_both_kinds_of_clients_are_served(self) -> None:
        self.nodes.start_name_server()
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(2)
        for tls in (None, Tls(verify="none")):
            self.send(self.cluster(tls))

    def test_a_disabled_port_speaks_no_tls(self) -> None:
        self.nodes.start_name_server(tls_server_mode=TlsMode.DISABLED)
        self.assertRaises(NoNameServer, self.send, self.cluster(Tls(verify="none")))

    def test_clients_that_trust_others_are_told_so(self) -> None:
        self.nodes.start_name_server(**self.shown)
        Issued(("stranger",), authority=True).write(self.folder, "authority")
        error = self.assertRaises(NoNameServer, self.send, self.cluster(self.trusting()))
        self.assertIn("its authority isn't trusted: name its authority in the trust file", str(error))

    def test_a_clients_wrong_file_is_named(self) -> None:
        error = self.assertRaises(BadSetting, self.cluster, Tls(trust_file="/none"))
        self.assertEqual(str(error), "/none: can't be read: No such file or directory")

    def test_a_renewed_certificate_is_shown_without_a_restart(self) -> None:
        self.nodes.start_name_server(**self.shown)
        renewed = self.issue("server", "10.0.0.9")
        for name in ("server.pem", "server.key"):
            os.utime(self.path(name), (1, 1))
        self.nodes.pass_time(WATCH_INTERVAL + 1, 1)
        cluster = self.cluster(self.trusting())
        self.assertEqual(self.nodes.result(cluster.admin().topics(), 60), [])
        serials = {
            transport.protocol._wrappedProtocol.getPeerCertificate().get_serial_number()
            for transport in self.nodes.network.transports
            if transport.getHost().host == CLIENT
        }
        self.assertEqual(serials, {renewed.certificate.serial_number})

    def test_a_renewed_certificate_of_its_calls_counts_whatever_its_ports_speak(self) -> None:
        self.nodes.start_name_server(**self.shown)
        self.issue("own", MASTER)
        calls = {"tls_enable": True, "tls_client_cert_path": self.path("own.pem")}
        calls |= {"tls_client_key_path": self.path("own.key"), "tls_server_mode": TlsMode.DISABLED}
        master = self.nodes.start(MASTER, **self.verified | calls | {"namesrv_addr": NAME_SERVER})
        (before,) = master.parts.expiries().values()
        Issued((MASTER,), signed_by=authority(), days=5).write(self.folder, "own")
        for name in ("own.pem", "own.key"):
            os.utime(self.path(name), (1, 1))
        self.nodes.pass_time(WATCH_INTERVAL + 1, 1)
        (after,) = master.parts.expiries().values()
        self.assertGreater(after, before)

    def test_the_name_server_that_a_master_brings_along_speaks_tls_as_well(self) -> None:
        config = self.nodes.config(MASTER, **self.shown)
        own = embed_name_server(config, self.nodes.parts(MASTER))
        own.service.startService()
        self.addCleanup(self.nodes.stop, own.service)
        tls = self.trusting()
        network = self.nodes.network.host(CLIENT)
        cluster = Cluster(self.nodes.clock, own.for_others, connecting=network, tls=tls)
        self.addCleanup(lambda: self.nodes.result(cluster.close(), 60))
        self.assertEqual(self.nodes.result(cluster.admin().topics(), 60), [])


class WrongFileTests(EncryptionCase):
    def refusal(self, **changes: Any) -> tuple[str, str]:
        error = self.assertRaises(SettingError, self.nodes.start, MASTER, **self.shown | changes)
        return error.key, str(error)

    def test_each_ends_the_start_with_its_key(self) -> None:
        gone = self.path("gone.pem")
        for changes, expected in (
            (
                {"tls_server_cert_path": gone},
                ("tls.server.certPath", f"{gone}: can't be read: No such file or directory"),
            ),
            (
                {"tls_server_key_path": None},
                ("tls.server.keyPath", "isn't set; set certificate and key, or tls.server.mode=disabled"),
            ),
            (
                {"tls_server_auth_client": True},
                ("tls.server.authClient", "set tls.server.trustCertPath as well"),
            ),
            (
                {"tls_client_auth_server": True, "tls_client_trust_cert_path": gone},
                ("tls.client.trustCertPath", f"{gone}: can't be read: No such file or directory"),
            ),
        ):
            with self.subTest(expected):
                self.assertEqual(self.refusal(**changes), expected)
