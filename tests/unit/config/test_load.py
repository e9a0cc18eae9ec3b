"""Files as operators write them: what starts, what is warned of, what is refused and how that is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.load import NAMED, Loaded, effective_text, load_broker_config, load_namesrv_config
from hatwisted.config.roles import as_master, as_slave, slave_without_file
from hatwisted.config.schema import BrokerConfig, BrokerRole, FlushDiskType
from hatwisted.wire.haframe import HaAck, HaFirstSync

Role = Callable[[Loaded[BrokerConfig]], Loaded[BrokerConfig]]

HOST = Host("here", "10.0.0.1", "/home/rocketmq")
CONF = Path(__file__).parents[3] / "conf"


class ConfigCase(SynchronousTestCase):
    def load(self, text: str, *overrides: str) -> Loaded[BrokerConfig]:
        self.path = os.path.join(self.mktemp_folder(), "broker.conf")
        Path(self.path).write_text(text, encoding="iso-8859-1")
        return load_broker_config(self.path, overrides, host=HOST)

    def mktemp_folder(self) -> str:
        folder = self.mktemp()
        os.makedirs(folder)
        return folder

    def warnings(self, loaded: Loaded[BrokerConfig]) -> list[str]:
        return [line.replace(self.path, "F") for line in loaded.warnings]

    def refusal(self, text: str, *overrides: str, role: Role = as_master) -> str:
        error = self.assertRaises(ConfigError, lambda: role(self.load(text, *overrides)))
        self.assertNotIn("\n", str(error))
        return str(error).replace(self.path, "F")


class Loading(ConfigCase):
    def test_B14_values_of_a_file(self) -> None:
        config = self.load(
            "brokerRole = SYNC_MASTER\nflushDiskType=SYNC_FLUSH\nlistenPort=10921 \n"
            "checkCRCOnRecover=FALSE\nbrokerIP1=10.0.0.1\nhaAck=durable\nhaFirstSync=minOffset\n"
        ).config
        self.assertEqual(config.broker_role, BrokerRole.SYNC_MASTER)
        self.assertEqual(config.flush_disk_type, FlushDiskType.SYNC_FLUSH)
        self.assertEqual(config.listen_port, 10921)
        self.assertFalse(config.check_crc_on_recover)
        self.assertEqual(config.broker_ip1, "10.0.0.1")
        self.assertEqual((config.ha_ack, config.ha_first_sync), (HaAck.DURABLE, HaFirstSync.MIN_OFFSET))

    def test_B14_a_running_brokers_file_loads_without_a_word(self) -> None:
        loaded = self.load(
            "sendMessageThreadPoolNums=16\nuseReentrantLockWhenPutMessage=true\nwaitTimeMillsInPullQueue=5000\n"
            "transientStorePoolEnable=false\naclEnable=false\nhaListenPort=10912\nrocketmqHome=/opt/rocketmq\n"
        )
        self.assertEqual(as_master(loaded).warnings, [])

    def test_unknown_keys_are_one_warning_with_the_nearest_names(self) -> None:
        loaded = self.load("brokerRol=SYNC_MASTER\n\nhaSendHeartBeatInterval=1\nxyzzy=1\n")
        self.assertEqual(
            self.warnings(loaded),
            [
                "F: unknown keys are ignored: brokerRol (line 1, did you mean brokerRole?), "
                "haSendHeartBeatInterval (line 3, did you mean haSendHeartbeatInterval?), xyzzy (line 4)"
            ],
        )

    def test_of_many_unknown_keys_the_first_are_named(self) -> None:
        (warning,) = self.warnings(self.load("".join(f"xyzzy{number}=1\n" for number in range(NAMED + 3))))
        self.assertIn("xyzzy0 (line 1), xyzzy1 (line 2)", warning)
        self.assertTrue(warning.endswith(f"xyzzy{NAMED - 1} (line {NAMED}) and 3 more"), warning)

    def test_keys_without_effect_are_reported_when_that_matters(self) -> None:
        self.assertEqual(
            self.warnings(self.load("\nenableLmq=true\n")),
            ["F:2: enableLmq=true: messages are dispatched to their own queue only"],
        )

    def test_a_log_we_would_misread_is_refused(self) -> None:
        self.assertEqual(
            self.refusal("enableDLegerCommitLog=true"),
            "F:1: enableDLegerCommitLog=true: a DLedger commit log has another format",
        )

    def test_the_last_of_a_repeated_key_holds(self) -> None:
        self.assertEqual(self.load("listenPort=1\nlistenPort=20911\n").config.listen_port, 20911)

    def test_overrides_win_and_are_named(self) -> None:
        self.assertEqual(self.load("listenPort=10911", "listenPort=20911").config.listen_port, 20911)
        self.assertEqual(
            self.refusal("", "brokerRole=MASTER"),
            "--set: brokerRole: can't be 'MASTER'; allowed: one of ASYNC_MASTER, SYNC_MASTER, SLAVE",
        )
        self.assertEqual(self.refusal("", "brokerRole"), "--set brokerRole: must be key=value")

    def test_a_malformed_override_is_named_without_its_value(self) -> None:
        key = "tls.server.keyPassword"
        for given in (f"{key}:hush", f"{key} hush", f"{key}:hu=sh", f"{key}\thush"):
            self.assertEqual(self.refusal("", given), f"--set {key}: must be key=value")
        for given in ("=hush", " = hush", "", ":hush"):
            self.assertEqual(self.refusal("", given), "--set: must be key=value")

    def test_without_a_file_the_defaults_hold(self) -> None:
        self.assertEqual(load_broker_config(None, host=HOST).config.broker_cluster_name, "DefaultCluster")

    def test_name_servers_of_the_environment(self) -> None:
        environ = {"NAMESRV_ADDR": "10.0.0.1:9876"}
        self.assertEqual(
            load_broker_config(None, host=HOST, environ=environ).config.name_servers, ["10.0.0.1:9876"]
        )
        loaded = load_broker_config(None, ["namesrvAddr=b:1"], host=HOST, environ=environ)
        self.assertEqual(loaded.config.name_servers, ["b:1"])
        error = self.assertRaises(
            ConfigError, load_broker_config, None, host=HOST, environ={"NAMESRV_ADDR": "nowhere"}
        )
        self.assertTrue(str(error).startswith("environment: namesrvAddr: can't be 'nowhere'"), str(error))

    def test_a_missing_file(self) -> None:
        error = self.assertRaises(ConfigError, load_broker_config, "/does/not/exist.conf", host=HOST)
        self.assertEqual(str(error), "/does/not/exist.conf: can't be read: No such file or directory")

    def test_namesrv_keys(self) -> None:
        loaded = load_namesrv_config(
            None, ["listenPort=9877", "orderMessageEnable=true", "clusterTest=false"], host=HOST
        )
        self.assertEqual((loaded.config.listen_port, loaded.config.order_message_enable), (9877, True))
        self.assertEqual(loaded.warnings, [])

    def test_a_key_of_the_other_kind_of_server_is_told_as_that(self) -> None:
        keys = ["haAllowList=10.0.0.2", "tls.client.keyPath=/k", "haAllowLst=10.0.0.2"]
        (warning,) = load_namesrv_config(None, keys, host=HOST).warnings
        self.assertIn(
            "haAllowList (--set, a broker's key), tls.client.keyPath (--set, a broker's key)", warning
        )
        self.assertIn("haAllowLst (--set, did you mean", warning)
        (warning,) = load_broker_config(None, ["orderMessageEnable=true"], host=HOST).warnings
        self.assertIn("orderMessageEnable (--set, a name server's key)", warning)

    def test_name_addresses_and_folders_are_the_hosts_by_default(self) -> None:
        config = load_broker_config(None, ["brokerIP2=10.0.0.2"], host=HOST).config
        self.assertEqual(
            (config.broker_name, config.broker_ip1, config.broker_ip2, config.store_path_root_dir),
            ("here", "10.0.0.1", "10.0.0.2", "/home/rocketmq/store"),
        )
        names = load_namesrv_config(None, host=HOST).config
        self.assertEqual(names.kv_config_path, "/home/rocketmq/namesrv/kvConfig.json")

    def test_a_relative_path_counts_from_where_the_command_is_given(self) -> None:
        loaded = load_broker_config(None, ["storePathRootDir=data/store"], host=HOST, environ={})
        self.assertEqual(loaded.config.store_path_root_dir, os.path.abspath("data/store"))

    def test_B18_the_effective_configuration_reads_back(self) -> None:
        loaded = self.load(
            "brokerRole=SLAVE\nbrokerId=3\nstorePathRootDir=/data/with space\nslaveTimeout=3000\n"
        )
        text = effective_text(loaded)
        self.assertIn("haTransferBatchSize=32768\n", text)
        self.assertEqual(self.load(text).config, loaded.config)
        self.assertEqual(self.load(text).warnings, [])


class WrongValues(ConfigCase):
    def test_each_names_file_line_key_and_what_is_allowed(self) -> None:
        cases = {
            "brokerRole=Slave": "can't be 'Slave'; allowed: one of ASYNC_MASTER, SYNC_MASTER, SLAVE",
            "listenPort=99999": "99999 is too big; allowed: a whole number from 3 to 65534",
            "listenPort=1e4": "can't be '1e4'; allowed: a whole number from 3 to 65534",
            "haHousekeepingInterval=0": "0 is too small; allowed: a whole number from 1 to 2^31-1 (ms)",
            "autoCreateTopicEnable=yes": "can't be 'yes'; allowed: true or false",
            "deleteWhen=24": "can't be '24'; allowed: hours from 00 to 23, several separated by ';'",
            "haMasterAddress=broker-a": "can't be 'broker-a'; allowed: host:port, or nothing",
            "messageDelayLevel=1s  5s": "can't be '1s  5s'; "
            "allowed: durations such as 1s 5m 2h, separated by single spaces",
            "messageDelayLevel=1s 99999999999999d": "can't be '1s 99999999999999d'; "
            "allowed: durations such as 1s 5m 2h, separated by single spaces",
            "brokerName=": "can't be empty; allowed: some text",
        }
        for line, expected in cases.items():
            key = line.partition("=")[0]
            self.assertEqual(self.refusal(f"# one\n\n{line}\n"), f"F:3: {key}: {expected}")

    def test_B26_a_batch_that_no_slave_can_hold(self) -> None:
        self.assertEqual(self.load("haTransferBatchSize=4194292").config.ha_transfer_batch_size, 4194292)
        self.assertIn("4194293 is too big", self.refusal("haTransferBatchSize=4194293"))

    def test_values_that_rocketmq_bends_are_bent_alike(self) -> None:
        config = self.load("diskMaxUsedSpaceRatio=99\nmappedFileSizeConsumeQueue=2001").config
        self.assertEqual(
            (config.disk_max_used_space_ratio, config.mapped_file_size_consume_queue), (95, 2020)
        )

    def test_nothing_unsets_an_optional_key(self) -> None:
        self.assertIsNone(self.load("haMasterAddress=\nnamesrvAddr=\n").config.ha_master_address)


class ControlCharacters(ConfigCase):
    def test_a_file_with_any_is_refused_with_line_and_byte(self) -> None:
        for byte in (*range(9), 11, *range(14, 32), 127):
            self.assertEqual(
                self.refusal(f"# one\r\nlistenPort=10911\nbrokerName=a{chr(byte)}b\n"),
                f"F:3: byte 36 of the file is 0x{byte:02x}, a control character: "
                "this is not a properties file, or it is damaged; allowed: text, tabs and line ends",
            )

    def test_in_a_comment_or_after_the_last_line_too(self) -> None:
        self.assertTrue(self.refusal("# \x00\n").startswith("F:1: byte 2 of the file is 0x00"))
        self.assertTrue(self.refusal("a=b\n" + "\x00" * 4096).startswith("F:2: byte 4 of the file is 0x00"))

    def test_blanks_line_ends_and_other_alphabets_are_text(self) -> None:
        name = "Dépôt 存储".encode()
        text = b"\tlistenPort\f=\t10921\r\n# " + name + b"\nbrokerName=" + name + b"\n"
        config = self.load(text.decode("iso-8859-1")).config
        self.assertEqual((config.listen_port, config.broker_name), (10921, name.decode("iso-8859-1")))


class FormerSpellings(ConfigCase):
    def test_they_are_taken_for_the_present_keys_and_reported(self) -> None:
        loaded = self.load("mapedFileSizeCommitLog=65536\nmapedFileSizeConsumeQueue=2000\n")
        self.assertEqual(loaded.config.mapped_file_size_commit_log, 65536)
        self.assertEqual(loaded.config.mapped_file_size_consume_queue, 2000)
        self.assertEqual(
            self.warnings(loaded),
            [
                "F:1: mapedFileSizeCommitLog is read as mappedFileSizeCommitLog, its current spelling",
                "F:2: mapedFileSizeConsumeQueue is read as mappedFileSizeConsumeQueue, its current spelling",
            ],
        )

    def test_the_present_one_wins_wherever_it_stands(self) -> None:
        for text in (
            "mapedFileSizeCommitLog=65536\nmappedFileSizeCommitLog=131072\n",
            "mappedFileSizeCommitLog=131072\nmapedFileSizeCommitLog=65536\n",
        ):
            loaded = self.load(text)
            self.assertEqual(loaded.config.mapped_file_size_commit_log, 131072)
            self.assertIn("mapedFileSizeCommitLog is ignored: F:", self.warnings(loaded)[0])

    def test_a_wrong_value_is_placed_where_it_is_written(self) -> None:
        self.assertTrue(
            self.refusal("\nmapedFileSizeCommitLog=1g\n").startswith(
                "F:2: mappedFileSizeCommitLog: can't be '1g'"
            )
        )

    def test_on_the_command_line_too(self) -> None:
        loaded = load_broker_config(None, ["mapedFileSizeCommitLog=65536"], host=HOST)
        self.assertEqual(loaded.config.mapped_file_size_commit_log, 65536)


class SlaveWithoutFile(ConfigCase):
    def slave(self, *overrides: str) -> Loaded[BrokerConfig]:
        return as_slave(slave_without_file(load_broker_config(None, overrides, host=HOST)))

    def test_role_and_id_follow_from_the_command(self) -> None:
        config = self.slave("namesrvAddr=n:9876").config
        self.assertEqual((config.broker_role, config.broker_id), (BrokerRole.SLAVE, 1))
        self.assertEqual(self.slave("brokerId=2").config.broker_id, 2)

    def test_what_is_missing_is_said(self) -> None:
        name, master = self.slave().warnings
        self.assertIn("brokerName is not set, so this host's name is used,", name)
        self.assertIn("neither haMasterAddress nor namesrvAddr is set", master)
        self.assertEqual(self.slave("brokerName=a", "haMasterAddress=m:10912").warnings, [])

    def test_another_role_is_refused_all_the_same(self) -> None:
        error = self.assertRaises(ConfigError, self.slave, "brokerRole=ASYNC_MASTER")
        self.assertIn("--set: brokerRole: ASYNC_MASTER is not for haslave", str(error))


class Roles(ConfigCase):
    def test_B02_a_master_has_id_0_whatever_the_file_says(self) -> None:
        loaded = as_master(self.load("brokerId=7\n"))
        self.assertEqual(loaded.config.broker_id, 0)
        self.assertEqual(self.warnings(loaded), ["F:1: brokerId=7 is ignored: a master's is always 0"])

    def test_B02_a_slave_needs_an_id_above_0(self) -> None:
        for line in ("brokerId=0", "brokerId=-1"):
            refusal = self.refusal(f"brokerRole=SLAVE\n{line}\n", role=as_slave)
            self.assertTrue(
                refusal.startswith(f"F:2: brokerId: {line[9:]} is not a slave's id; allowed: "), refusal
            )

    def test_B02_the_id_may_be_missing_altogether(self) -> None:
        self.assertTrue(self.refusal("brokerRole=SLAVE\n", role=as_slave).startswith("F: brokerId: 0 is not"))

    def test_a_slaves_file_is_refused_by_hamaster(self) -> None:
        self.assertTrue(
            self.refusal("\nbrokerRole=SLAVE\n").startswith(
                "F:2: brokerRole: SLAVE is not for hamaster; allowed: "
            )
        )

    def test_a_masters_file_is_refused_by_haslave(self) -> None:
        refusal = self.refusal("brokerRole=SYNC_MASTER\nbrokerId=1\n", role=as_slave)
        self.assertTrue(
            refusal.startswith("F:1: brokerRole: SYNC_MASTER is not for haslave; allowed: SLAVE"), refusal
        )

    def test_a_sync_master_that_waits_for_nobody_is_warned_of(self) -> None:
        loaded = as_master(self.load("brokerRole=SYNC_MASTER\ninSyncReplicas=1\n"))
        self.assertEqual(len(loaded.warnings), 1)
        self.assertIn(":2: inSyncReplicas=1: this SYNC_MASTER waits for no slave", loaded.warnings[0])
        for quiet in (
            "brokerRole=SYNC_MASTER\n",
            "brokerRole=SYNC_MASTER\ninSyncReplicas=2\n",
            "inSyncReplicas=1\n",
        ):
            self.assertEqual(as_master(self.load(quiet)).warnings, [], quiet)

    def test_messages_that_fit_into_no_file_are_warned_of(self) -> None:
        self.assertEqual(
            self.warnings(as_master(self.load("mappedFileSizeCommitLog=65536"))),
            [
                "F:1: mappedFileSizeCommitLog: no file of mappedFileSizeCommitLog=65536 takes a message "
                "of maxMessageSize=4194304: above 65437 bytes it is refused"
            ],
        )
        self.assertEqual(
            as_master(self.load("mappedFileSizeCommitLog=65536\nmaxMessageSize=65437")).warnings, []
        )

    def test_B15_another_ha_port_is_warned_of(self) -> None:
        loaded = as_master(self.load("listenPort=20911\nhaListenPort=10912\n"))
        self.assertEqual(
            self.warnings(loaded),
            ["F:2: haListenPort=10912 is ignored: it is always listenPort + 1, here 20912"],
        )

    def test_intervals_that_drop_idle_links_are_refused(self) -> None:
        self.assertEqual(
            self.refusal("\nhaHousekeepingInterval=5000\n"),
            "F:2: haHousekeepingInterval: haHousekeepingInterval=5000 would drop every idle link; "
            "allowed: more than haSendHeartbeatInterval, 5000",
        )

    def test_B17_a_slave_that_can_find_no_master_is_warned_of(self) -> None:
        slave = "brokerRole=SLAVE\nbrokerId=1\n"
        warning = as_slave(self.load(slave)).warnings[0]
        self.assertIn("this slave won't find a master; set one of them", warning)
        for known in ("haMasterAddress=a:10912", "namesrvAddr=n:9876"):
            self.assertEqual(as_slave(self.load(slave + known)).warnings, [])


class ShippedFiles(ConfigCase):
    """B11, B12, B13: the same sets, names and keys as RocketMQ's distribution."""

    def assert_set(self, name: str, master: BrokerRole, slaves: bool) -> None:
        expected = set()
        for broker in ("broker-a", "broker-b"):
            expected.add(f"{broker}.properties")
            loaded = load_broker_config(str(CONF / name / f"{broker}.properties"), host=HOST)
            self.assert_broker(as_master(loaded), broker, 0, master)
            if slaves:
                expected.add(f"{broker}-s.properties")
                slave = load_broker_config(
                    str(CONF / name / f"{broker}-s.properties"), ["namesrvAddr=n:9876"], host=HOST
                )
                self.assert_broker(as_slave(slave), broker, 1, BrokerRole.SLAVE)
        self.assertEqual(set(os.listdir(CONF / name)), expected)

    def assert_broker(self, loaded: Loaded[BrokerConfig], name: str, number: int, role: BrokerRole) -> None:
        config, warnings, source = loaded
        self.assertEqual(warnings, [])
        self.assertEqual((config.broker_cluster_name, config.broker_name), ("DefaultCluster", name))
        self.assertEqual((config.broker_id, config.broker_role), (number, role))
        self.assertEqual((config.delete_when, config.file_reserved_time), ("04", 48))
        self.assertEqual(config.flush_disk_type, FlushDiskType.ASYNC_FLUSH)
        keys = set(source.entries) - {"namesrvAddr"}
        self.assertEqual(
            keys,
            {
                "brokerClusterName",
                "brokerName",
                "brokerId",
                "deleteWhen",
                "fileReservedTime",
                "brokerRole",
                "flushDiskType",
            },
        )

    def test_B11_2m_2s_async(self) -> None:
        self.assert_set("2m-2s-async", BrokerRole.ASYNC_MASTER, slaves=True)

    def test_B12_2m_2s_sync(self) -> None:
        self.assert_set("2m-2s-sync", BrokerRole.SYNC_MASTER, slaves=True)

    def test_B13_2m_noslave(self) -> None:
        self.assert_set("2m-noslave", BrokerRole.ASYNC_MASTER, slaves=False)
