"""The HA link of two brokers that show each other a certificate: who copies a log, and who doesn't."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole
from hatwisted.tls.certificatefiles import EXPIRY_WARNING, WATCH_INTERVAL
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.haframe import HaFirstSync
from tests.support.certificate import Issued, authority
from tests.support.memorynode import MemoryNodes

MASTER, SLAVE, STRANGER = "10.0.0.1", "10.0.0.2", "10.9.9.9"
ADDRESS = f"{MASTER}:10911"
SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 11, 12


class LinkCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.folder = self.nodes.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        authority().write(self.folder, "authority")
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.note)
        self.addCleanup(globalLogPublisher.removeObserver, self.note)

    def note(self, event: Any) -> None:
        self.lines.append(formatEvent(event))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def tls(self, name: str, *, signed_by: Issued | None = None, **more: Any) -> dict[str, Any]:
        """The keys of a broker whose certificate has this name."""
        Issued((name,), signed_by=signed_by or authority()).write(self.folder, name)
        return {
            "ha_tls_enable": True,
            "ha_tls_cert_path": self.path(f"{name}.pem"),
            "ha_tls_key_path": self.path(f"{name}.key"),
            "ha_tls_trust_cert_path": self.path("authority.pem"),
            **more,
        }

    def master(self, **tls: Any) -> Any:
        return self.nodes.start(MASTER, broker_role=BrokerRole.SYNC_MASTER, sync_flush_timeout=500, **tls)

    def slave(self, **tls: Any) -> Any:
        slave = self.nodes.start(
            SLAVE,
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            ha_master_address=f"{MASTER}:10912",
            **tls,
        )
        self.nodes.pass_time(1)
        return slave

    def said(self, what: str) -> list[str]:
        return [line for line in self.lines if what in line]


class LinkTests(LinkCase):
    def test_B185_a_slave_and_its_master_with_certificates_of_one_authority(self) -> None:
        master = self.master(**self.tls("master-1"))
        self.assertEqual(self.nodes.send(ADDRESS), SLAVE_NOT_AVAILABLE)
        slave = self.slave(**self.tls("slave-1"))
        for size in (1, 100_000, 900_000):
            self.assertEqual(self.nodes.send(ADDRESS, body=bytes(size)), 0)
        self.assertEqual(slave.parts.store.log.max_offset, master.parts.store.log.max_offset)
        self.assertEqual(len(self.said(f"slave {SLAVE}:")), 1)
        self.assertIn("'slave-1', joined at offset 0", self.said("joined at offset")[0])
        self.assertEqual([(link.name, link.address.partition(":")[0]) for link in master.parts.ha.status()],
                         [("slave-1", SLAVE)])  # fmt: skip
        answer = json.loads(self.nodes.ask(ADDRESS, RequestCode.GET_BROKER_HA_STATUS).body)
        self.assertEqual([row["certificate"] for row in answer["haConnectionInfo"]], ["slave-1"])

    def test_B185_the_lag_of_a_slave_is_copied_in_big_pieces(self) -> None:
        master = self.master(**self.tls("master-1"))
        for _ in range(5):
            self.nodes.send(ADDRESS, body=bytes(900_000))
        slave = self.slave(**self.tls("slave-1"), ha_first_sync=HaFirstSync.MIN_OFFSET)
        self.nodes.pass_time(5)
        self.assertEqual(slave.parts.store.log.max_offset, master.parts.store.log.max_offset)

    def test_B185_a_stranger_who_reports_is_no_slave_and_no_put_waits_for_him(self) -> None:
        master = self.master(**self.tls("master-1"))
        stranger = self.nodes.play_slave(STRANGER, f"{MASTER}:10912", 0)
        self.assertEqual(self.nodes.send(ADDRESS), SLAVE_NOT_AVAILABLE)
        self.assertEqual((stranger.transport.connected, master.parts.ha.slave_hosts()), (False, []))  # type: ignore[union-attr]
        self.assertIn("it sends plain bytes, and this port speaks TLS alone", self.said(STRANGER)[0])

    def test_B185_certificates_of_others_are_refused_by_either_side(self) -> None:
        other = Issued(("other authority",), authority=True)
        self.master(**self.tls("master-1"))
        slave = self.slave(**self.tls("slave-1", signed_by=other))
        self.assertEqual(self.nodes.send(ADDRESS), SLAVE_NOT_AVAILABLE)
        self.assertIn(
            "the certificate isn't accepted: its authority isn't trusted", self.said("TLS with 10.0.0.2")[0]
        )
        self.nodes.stop(slave)
        other.write(self.folder, "authority")
        self.slave(**self.tls("slave-2"))
        self.assertTrue(
            self.said("can't connect to the master's HA port 10.0.0.1:10912: the certificate isn't")
        )

    def test_B185_certificates_with_other_names_are_refused_where_names_are_given(self) -> None:
        master = self.master(**self.tls("master-1", ha_tls_peers="slave-1; slave-2"))
        slave = self.slave(**self.tls("client-7"))
        self.assertIn("it's for 'client-7', who isn't expected here", self.said("TLS with 10.0.0.2")[0])
        self.nodes.stop(slave)
        slave = self.slave(**self.tls("slave-2", ha_tls_peers="master-2"))
        self.assertTrue(self.said("it's for 'master-1', who isn't expected here"))
        self.nodes.stop(slave)
        self.slave(**self.tls("slave-2", ha_tls_peers="master-1"))
        self.assertEqual(master.parts.ha.slave_hosts(), [SLAVE])

    def test_B185_one_side_alone_with_tls_copies_nothing_and_says_why(self) -> None:
        for mine, theirs, why in (
            (self.tls("master-1"), {}, "haTlsEnable is true at the master: set haTlsEnable=true"),
            ({}, self.tls("slave-1"), "can't connect to the master's HA port 10.0.0.1:10912: no TLS there"),
        ):
            master, slave = self.master(**mine), self.slave(**theirs)
            self.nodes.pass_time(10)
            self.assertEqual(master.parts.ha.slave_hosts(), [])
            self.assertTrue(self.said(why))
            self.nodes.stop(slave)
            self.nodes.stop(master)

    def test_B185_a_slave_that_asks_nothing_first_is_told_apart_by_its_bytes(self) -> None:
        self.master(**self.tls("master-1"))
        self.nodes.play_slave("10.0.0.5", "10.0.0.1:10912", 0)
        self.nodes.pass_time(2)
        self.assertTrue(self.said("it sends plain bytes, and this port speaks TLS alone"))

    def test_B185_renewed_certificates_hold_without_a_restart(self) -> None:
        self.master(**self.tls("master-1"))
        renewed = Issued(("master-1", "renewed"), signed_by=authority())
        renewed.write(self.folder, "master-1")
        for name in ("master-1.pem", "master-1.key"):
            os.utime(self.path(name), (1, 1))
        self.nodes.pass_time(WATCH_INTERVAL + 1, 1)
        self.slave(**self.tls("slave-1", ha_tls_peers="renewed"))
        self.assertEqual(self.nodes.send(ADDRESS), 0)


class ExpiryTests(LinkCase):
    def test_either_end_warns_of_its_own_from_thirty_days_on(self) -> None:
        begin = datetime.fromtimestamp(self.nodes.clock.seconds(), UTC)
        hour = 1 / 24  # for which certificates are valid already
        ends = []
        for host, name, role in (
            (MASTER, "master-1", BrokerRole.SYNC_MASTER),
            (SLAVE, "slave-1", BrokerRole.SLAVE),
        ):
            keys = self.tls(name)
            days = EXPIRY_WARNING + hour + 30 / 86400
            Issued((name,), signed_by=authority(), days=days, now=begin).write(self.folder, name)
            number = int(role is BrokerRole.SLAVE)
            self.nodes.start(host, broker_role=role, broker_id=number, **keys)
            ends.append(f"{self.path(name)}.pem: the certificate expires in 30 days")
        self.nodes.pass_time(20, 1)
        self.assertEqual(self.said("the certificate expires"), [])
        self.nodes.pass_time(20, 1)
        self.assertEqual(sorted(self.said("the certificate expires")), sorted(ends))


class WrongFileTests(LinkCase):
    def test_each_ends_the_start_with_its_key(self) -> None:
        good = self.tls("master-1")
        for key, name in (
            ("ha_tls_cert_path", "haTlsCertPath"),
            ("ha_tls_key_path", "haTlsKeyPath"),
            ("ha_tls_trust_cert_path", "haTlsTrustCertPath"),
        ):
            error = self.assertRaises(SettingError, self.nodes.start, MASTER, **good | {key: None})
            self.assertEqual(error.key, name)
        gone = good | {"ha_tls_trust_cert_path": self.path("gone.pem")}
        error = self.assertRaises(SettingError, self.nodes.start, MASTER, **gone)
        self.assertIn("gone.pem: can't be read", str(error))
