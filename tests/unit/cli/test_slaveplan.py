"""What a new slave is told by its master's answers, and when its copy counts as done."""

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import newslave
from hatwisted.cli.cluster.copyprogress import PATIENCE, Advance
from hatwisted.cli.cluster.newslave import own_address, start, write_files
from hatwisted.cli.cluster.slaveplan import (
    Master,
    Place,
    conf_text,
    objections,
    slave_settings,
    tls_settings,
    unit_text,
)
from hatwisted.cli.errors import CannotRun
from hatwisted.clientcore.tls import Tls
from hatwisted.config.host import Host
from hatwisted.config.load import load_broker_config
from hatwisted.config.pairing import pairing
from hatwisted.config.roles import as_slave
from hatwisted.health.figures import Answers, broker_figures
from hatwisted.wire.registration import BrokerData

CONFIG = {
    "brokerName": "a",
    "brokerRole": "ASYNC_MASTER",
    "brokerIP2": "10.0.0.9",
    "haListenPort": "10912",
    "mappedFileSizeCommitLog": "1048576",
    "messageDelayLevel": "1s 5s",
    "haTlsEnable": "",
}
HOST = Host("here", "10.0.0.7", "/home/of")


def master(addresses=None, config=CONFIG, end=1000):
    group = BrokerData(broker_name="a", cluster="C", broker_addrs=addresses or {0: "10.0.0.5:10911"})
    return Master(name_servers="n:9876", group=group, config=config, log_begin=0, log_end=end)


def place(folder="/data/a", address="10.0.0.7", free=1 << 40):
    return Place(folder=folder, address=address, port=10921, free=free)


class PlanTests(SynchronousTestCase):
    def test_the_file_is_a_slaves_that_fits_its_master(self):
        path = Path(self.mktemp())
        path.write_text(conf_text(master(), slave_settings(master(), place())))
        loaded = as_slave(load_broker_config(str(path), host=HOST))
        self.assertEqual(loaded.warnings, [])
        found = pairing(loaded.config, CONFIG | {"brokerClusterName": "C"})
        self.assertEqual((found.objections, found.warnings), ([], []))
        config = loaded.config
        self.assertEqual((config.broker_id, config.listen_port), (1, 10921))
        self.assertEqual((config.broker_name, config.broker_cluster_name), ("a", "C"))
        self.assertEqual(config.store_path_root_dir, "/data/a/store")
        self.assertEqual(config.mapped_file_size_commit_log, 1 << 20)
        self.assertEqual(config.message_delay_level, "1s 5s")
        self.assertEqual(config.ha_first_sync.value, "minOffset")

    def test_names_of_others_add_no_settings(self):
        ends = "\nadminAllowList=*", "\radminAllowList=*", "\u2028adminAllowList=*", "\\", "\x1b[2J"
        for end in ends:
            named = BrokerData(
                broker_name=f"a{end}", cluster=f"C{end}", broker_addrs={0: f"10.0.0.5{end}:10911"}
            )
            hostile = Master(name_servers="n:9876", group=named, config=CONFIG, log_begin=0, log_end=1)
            text = conf_text(hostile, slave_settings(hostile, place()))
            self.assertTrue(text.replace("\n", "").isprintable())
            path = Path(self.mktemp())
            path.write_text(text)
            loaded = as_slave(load_broker_config(str(path), host=HOST))
            self.assertEqual((loaded.warnings, loaded.config.admin_allow_list), ([], None))
            self.assertEqual(loaded.config.broker_name, f"a{end}")

    def test_its_id_is_the_first_that_is_free(self):
        addresses = {0: "h:1", 1: "h:2", 3: "h:3"}
        self.assertEqual(slave_settings(master(addresses), place())["brokerId"], "2")

    def test_on_loopback_it_listens_there_alone(self):
        self.assertEqual(slave_settings(master(), place(address="127.0.0.1"))["bindAddress"], "127.0.0.1")
        self.assertNotIn("bindAddress", slave_settings(master(), place()))

    def test_where_the_log_comes_from(self):
        self.assertEqual(master().ha_address, "10.0.0.9:10912")
        self.assertEqual(master(config={}).ha_address, "10.0.0.5:10912")

    def test_a_log_that_doesnt_fit_the_disk(self):
        (found,) = objections(master(end=1000), place(free=1050), None)
        self.assertIn("--dir", found)
        self.assertEqual([*objections(master(end=1000), place(free=1100), None)], [])

    def test_a_master_that_asks_for_accounts(self):
        asks = master(config=CONFIG | {"aclEnable": "true"})
        (found,) = objections(asks, place(), None)
        self.assertIn("--credentials FILE", found)
        self.assertEqual([*objections(asks, place(), "/me.yml")], [])
        self.assertEqual(slave_settings(asks, place(), "/me.yml")["credentialsFile"], "/me.yml")

    def test_it_is_encrypted_as_the_command_was(self):
        self.assertEqual(tls_settings(None), {})
        told = tls_settings(Tls(trust_file="/ca.pem", verify="chain"))
        wanted = {
            "tls.enable": "true",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": "/ca.pem",
        }
        self.assertEqual(told, wanted)
        path = Path(self.mktemp())
        path.write_text(conf_text(master(), slave_settings(master(), place()) | told))
        loaded = as_slave(load_broker_config(str(path), host=HOST))
        self.assertTrue(loaded.config.tls_enable)
        self.assertEqual(loaded.warnings, [])

    def test_a_unit_names_folder_and_program(self):
        text = unit_text("/venv/bin/twistd", "/data/a", "a")
        self.assertIn(
            "ExecStart=/venv/bin/twistd -n --pidfile= --logfile=- haslave --conf=/data/a/broker.conf", text
        )
        for line in ("Type=notify", "WatchdogSec=60", "RestartPreventExitStatus=1"):
            self.assertIn(line, text.splitlines())

    def test_a_folder_may_have_any_name(self):
        lines = unit_text("/bin/twistd", '/data/my "50%" of $x', "a").splitlines()
        self.assertIn('WorkingDirectory=/data/my "50%%" of $x', lines)
        self.assertIn('ReadWritePaths="/data/my \\"50%%\\" of $x"', lines)
        (start,) = (line for line in lines if line.startswith("ExecStart="))
        self.assertTrue(start.endswith(""" '--conf=/data/my "50%%" of $$x/broker.conf'"""), start)


class NewSlaveTests(SynchronousTestCase):
    def test_files_are_private_and_none_is_overwritten(self):
        folder = Path(self.mktemp())
        write_files(folder, {"broker.conf": "a=b\n"})
        self.assertEqual((folder / "broker.conf").stat().st_mode & 0o777, 0o600)
        error = self.assertRaises(CannotRun, write_files, folder, {"broker.conf": "c=d\n"})
        self.assertIn("--dir", str(error))
        self.assertEqual((folder / "broker.conf").read_text(), "a=b\n")

    def test_a_full_disk_leaves_no_half_a_configuration(self):
        folder = Path(self.mktemp())

        def full(path, flags):
            os.close(os.open(path, flags, 0o600))
            return os.open("/dev/full", os.O_WRONLY)

        self.patch(newslave, "_private", full)
        error = self.assertRaises(CannotRun, write_files, folder, {"broker.conf": "a=b\n"})
        self.assertEqual(str(error), f"{folder}: can't be written: No space left on device")
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_start_that_fails_says_why(self):
        class Done:
            returncode, stderr = 1, "haslave: broker.conf:3: wrong\nmore\n"

        error = self.assertRaises(CannotRun, start, Path("/data/a"), lambda *_, **__: Done)
        self.assertIn("broker.conf:3: wrong", str(error))

    def test_the_own_address_is_the_one_that_reaches_the_master(self):
        self.assertEqual(own_address("127.0.0.1:10911"), "127.0.0.1")


class AdvanceTests(SynchronousTestCase):
    def setUp(self):
        self.advance = Advance()

    def take(self, slave, master, error=None):
        def figures(number, end):
            said = {"commitLogMaxOffset": str(end)}
            return broker_figures(
                "a", number, "h:1", Answers(at=0.0, runtime=said, error=None if number == 0 else error)
            )

        return self.advance.take(figures(1, slave), figures(0, master))

    def test_level_is_what_the_master_had_before(self):
        self.assertEqual([self.take(0, 100), self.take(50, 200), self.take(199, 300)], [False] * 3)
        self.assertTrue(self.take(300, 400))
        self.assertIsNone(self.advance.problem)

    def test_an_empty_master_is_level_at_the_second_look(self):
        self.assertEqual([self.take(0, 0), self.take(0, 0)], [False, True])

    def test_a_slave_that_moves_is_waited_for(self):
        self.assertFalse(any(self.take(end, 10**6) for end in range(1, 5 * PATIENCE)))

    def test_one_that_doesnt_is_stuck(self):
        looks = [self.take(7, 100) for _ in range(PATIENCE + 1)]
        self.assertEqual((looks.count(True), looks[-1]), (1, True))
        self.assertIn("its log says why", self.advance.problem)

    def test_one_that_doesnt_answer_is_stuck_with_that_reason(self):
        while not self.take(0, 100, error="connection refused"):
            pass
        self.assertEqual(self.advance.problem, "connection refused")
