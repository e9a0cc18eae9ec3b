"""`hatwisted doctor` on hosts and networks of the test's: whom it asks, and what it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import msgspec
from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.host import doctor as command
from hatwisted.cli.host import hostfacts
from hatwisted.cli.host.hostfacts import clock_synchronised, disk_of, file_system_of
from hatwisted.cli.host.neighbours import neighbour_checks
from hatwisted.clientcore.errors import ClientError, ConnectFailed
from hatwisted.clientcore.survey import Words
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.config.tlskeys import TlsMode
from hatwisted.health.judgement import Weight
from hatwisted.health.surroundings import Check, Disk
from hatwisted.wire.registration import BrokerData, ClusterInfo

NAMES = "10.0.0.9:9876"
MASTER = "10.0.0.5:10911"
PROBLEM, NOTE = Weight.PROBLEM, Weight.NOTE


def words(at: float = 1000.0, boot: float = 900.0, **config: str) -> Words:
    """What a broker says that has run for 100 s by its own clock."""
    runtime = {
        "bootTimestamp": str(int(boot * 1000)),
        "runtime": "[ 0 days, 0 hours, 1 minutes, 40 seconds ]",
    }
    return Words(at=at, runtime=runtime, config="".join(f"{k}={v}\n" for k, v in config.items()).encode())


def cluster(addresses: dict[int, str], name: str = "broker-a") -> ClusterInfo:
    group = BrokerData(broker_name=name, cluster="C", broker_addrs=addresses)
    return ClusterInfo(broker_addr_table={name: group})


class FakeNetwork:
    """Of a host where all is free and somebody answers.

    - said: by each broker; others refuse
    - names: what name servers say
    - taken: ports; closed: addresses where nobody listens
    """

    def __init__(self) -> None:
        self.said: dict[str, Words] = {}
        self.names: dict[str, ClusterInfo | ClientError] = {NAMES: cluster({0: MASTER})}
        self.taken: set[int] = set()
        self.closed: set[str] = set()

    def is_free(self, port: int) -> bool:
        return port not in self.taken

    def answers(self, address: str) -> bool:
        return address not in self.closed

    def name_servers(self) -> Mapping[str, ClusterInfo | ClientError]:
        return self.names

    def broker(self, address: str) -> Words:
        return self.said.get(address) or Words(at=1000.0, error=f"{address}: connection refused", runtime={})


SLAVE = BrokerConfig(
    broker_name="broker-a", broker_role=BrokerRole.SLAVE, broker_id=1, listen_port=10921, namesrv_addr=NAMES
)
AS_MASTER = {"brokerName": "broker-a", "brokerRole": "ASYNC_MASTER", "haListenPort": "10912"}


class NeighbourTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.network = FakeNetwork()
        self.network.said = {MASTER: words(**AS_MASTER)}

    def found(self, config: BrokerConfig = SLAVE, synchronised: bool | None = True) -> dict[str, Check]:
        checks = list(neighbour_checks(config, self.network, synchronised))
        self.assertEqual(len({each.name for each in checks}), len(checks))
        return {each.name: each for each in checks}

    def problem(self, name: str) -> str:
        """The only one there is."""
        wrong = {each.name: each.what for each in self.found().values() if each.weight is PROBLEM}
        self.assertEqual(list(wrong), [name])
        return wrong[name]

    def test_a_slave_that_can_run(self) -> None:
        found = self.found()
        self.assertEqual({each.weight for each in found.values()}, {None})
        self.assertIn("10921, 10922, 10919 are free", found["ports"].what)
        self.assertEqual(found["name-server"].what, f"{NAMES} answers")
        self.assertEqual(found["master"].what, f"{MASTER} answers, and so does its HA port 10.0.0.5:10912")

    def test_a_master_has_no_master_to_look_for(self) -> None:
        self.network.said = {}
        self.assertEqual(set(self.found(BrokerConfig(namesrv_addr=NAMES))), {"ports", "name-server", "clock"})

    def test_without_name_servers_none_is_asked(self) -> None:
        self.network.names = {NAMES: ConnectFailed(NAMES, "nobody should ask")}
        self.assertNotIn("name-server", self.found(BrokerConfig()))

    def test_this_broker_runs_already(self) -> None:
        self.network.taken = {10921, 10922}
        self.network.said["127.0.0.1:10921"] = words(brokerName="broker-a")
        found = self.found()["ports"]
        self.assertIsNone(found.weight)
        self.assertIn("this broker runs, for 2 min", found.what)

    def test_a_broker_that_runs_has_to_be_listed_by_each_name_server(self) -> None:
        self.network.taken = {10921, 10922}
        self.network.said["127.0.0.1:10921"] = words(brokerName="broker-a", brokerIP1="10.0.0.6")
        for slaves, listed in (
            ({1: "10.0.0.6:10921"}, True),
            ({}, False),
            ({2: "10.0.0.6:10921"}, False),
            ({1: "10.0.0.7:10921"}, False),
        ):
            self.network.names = {NAMES: cluster({0: MASTER, **slaves})}
            if listed:
                self.assertEqual(self.found()["name-server"].what, f"{NAMES} answers")
            else:
                self.assertIn(f"{NAMES} answers, and doesn't list this broker", self.problem("name-server"))

    def test_ports_of_somebody_else(self) -> None:
        self.network.taken = {10921}
        self.assertEqual(self.problem("ports"), "10921: in use", "nobody who answers")
        self.network.said["127.0.0.1:10921"] = words(brokerName="broker-b")
        self.assertEqual(self.problem("ports"), "10921: in use", "another broker")
        self.network.taken = {10919}
        self.network.said["127.0.0.1:10921"] = words(brokerName="broker-a")
        self.assertEqual(self.problem("ports"), "10919: in use", "its own port is free: it doesn't run")

    def test_a_broker_that_tells_only_who_may_ask_is_asked_with_that(self) -> None:
        self.network.taken = {10921}
        for settings, said in (
            ({}, "ss -ltnp shows by whom: end it, or "),
            ({"acl_enable": True}, "if it's this broker, ask with --credentials; else end it"),
            (
                {"acl_enable": True, "tls_server_mode": TlsMode.ENFORCING},
                "ask with --credentials and --tls; else",
            ),
        ):
            config = msgspec.structs.replace(SLAVE, **settings)
            self.assertIn(said, self.found(config)["ports"].advice)

    def test_the_port_for_vips_is_looked_at_only_where_there_is_one(self) -> None:
        self.network.taken = {10909}
        self.assertEqual(self.found(BrokerConfig(vip_listen_enable=False))["ports"].weight, None)
        self.assertEqual(self.found(BrokerConfig(vip_listen_enable=True))["ports"].weight, PROBLEM)

    def test_a_name_server_that_is_silent(self) -> None:
        self.network.names = {NAMES: ConnectFailed(NAMES, "connection refused")}
        found = self.found()
        self.assertEqual((found["name-server"].weight, found["master"].weight), (PROBLEM, PROBLEM))
        self.assertIn("connection refused", found["name-server"].what)

    def test_no_name_server_knows_a_master(self) -> None:
        for info in (cluster({1: "10.0.0.6:10911"}), cluster({0: MASTER}, "broker-b")):
            self.network.names = {NAMES: info}
            self.assertEqual(self.problem("master"), "no name server knows a master of broker-a")

    def test_one_that_knows_it_is_enough(self) -> None:
        self.network.names = {"10.0.0.8:9876": cluster({}), NAMES: cluster({0: MASTER})}
        checks = list(neighbour_checks(SLAVE, self.network, True))
        self.assertEqual({each.weight for each in checks}, {None})

    def test_a_master_that_is_named_is_asked_at_the_port_below(self) -> None:
        self.network.names = {NAMES: cluster({})}
        self.network.said = {"10.0.0.7:20911": words(**AS_MASTER)}
        config = BrokerConfig(
            broker_name="broker-a",
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            listen_port=10921,
            namesrv_addr=NAMES,
            ha_master_address="10.0.0.7:20912",
        )
        found = self.found(config)["master"]
        self.assertEqual(found.what, "10.0.0.7:20911 answers, and so does its HA port 10.0.0.7:20912")

    def test_a_master_that_is_silent(self) -> None:
        self.network.said = {}
        self.assertEqual(self.problem("master"), f"{MASTER}: connection refused")

    def test_a_master_that_keeps_its_configuration_to_itself(self) -> None:
        said = words(**AS_MASTER)
        self.network.said = {MASTER: Words(at=said.at, runtime=said.runtime)}
        first, second = (
            each for each in neighbour_checks(SLAVE, self.network, True) if each.name == "master"
        )
        self.assertEqual((first.weight, second.weight), (NOTE, None))
        self.assertIn("--credentials", first.advice)
        self.assertIn("10.0.0.5:10912", second.what, "RocketMQ's usual port")

    def test_another_file_size_than_its_masters(self) -> None:
        self.network.said = {MASTER: words(**AS_MASTER, mappedFileSizeCommitLog="2097152")}
        self.assertIn("set mappedFileSizeCommitLog=2097152", self.problem("master"))

    def test_what_matters_once_they_change_places_is_a_note(self) -> None:
        self.network.said = {MASTER: words(**AS_MASTER, maxIndexNum="77")}
        noted = [each.what for each in neighbour_checks(SLAVE, self.network, True) if each.weight is NOTE]
        self.assertEqual(len(noted), 1)
        self.assertIn("maxIndexNum", noted[0])

    def test_an_ha_port_that_is_closed(self) -> None:
        self.network.said = {MASTER: words(**AS_MASTER | {"brokerIP2": "10.1.0.5", "haListenPort": "20912"})}
        self.network.closed = {"10.1.0.5:20912"}
        self.assertEqual(self.problem("ha-port"), "10.1.0.5:20912 can't be reached from here")

    def test_clocks(self) -> None:
        self.network.said = {MASTER: words(at=1100.0, boot=900.0, **AS_MASTER)}
        self.assertEqual(self.problem("clock"), "its master's clock is -100 s from this one")
        self.network.said = {MASTER: words(**AS_MASTER)}
        self.assertEqual(self.found(synchronised=False)["clock"].weight, NOTE)
        self.assertEqual(self.found(synchronised=None)["clock"].what, "runs")


ROOMY = Disk(
    folder="/store", writable=True, total=1 << 40, free=1 << 39, kind="ext4", file_size=1 << 30, limit=0.75
)


class CommandTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.network = FakeNetwork()
        self.network.said = {MASTER: words(**AS_MASTER)}
        for name, value in (
            ("ClientNetwork", lambda config: self.network),
            ("disk_of", lambda config: ROOMY),
            ("limits", lambda: (1 << 20, None)),
            ("clock_synchronised", lambda: True),
        ):
            self.patch(command, name, value)

    def run_doctor(self, *arguments: str, code: int) -> Result:
        done = CliRunner().invoke(command.doctor, arguments, env={"HOME": "/nobody"})
        self.assertEqual(done.exit_code, code, done.output)
        return done

    def conf(self, **settings: str) -> str:
        path = Path(self.mktemp())
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def test_people_get_a_line_for_each_look_and_advice_below(self) -> None:
        conf = self.conf(namesrvAddr=NAMES, brokerRole="SLAVE", brokerId="1", listenPort="10921")
        said = self.run_doctor("-c", conf, "-s", "brokerName=broker-b", code=1).output.splitlines()
        marks = {line[3:18].strip(): line[:3].strip() for line in said if line[:3].strip()}
        expected = {
            "versions": "ok",
            "configuration": "ok",
            "disk": "ok",
            "descriptors": "ok",
            "ports": "ok",
            "name-server": "ok",
            "master": "!",
            "clock": "ok",
        }
        self.assertEqual(marks, expected)
        self.assertIn("ok configuration  SLAVE 1 of broker-b", said)
        (at,) = [number for number, line in enumerate(said) if line.startswith("! ")]
        self.assertEqual(said[at + 1][:18], " " * 18)
        self.assertIn("start it, correct brokerName or namesrvAddr", said[at + 1])

    def test_programs_get_one_document(self) -> None:
        told = json.loads(self.run_doctor("-s", f"namesrvAddr={NAMES}", "--json", code=0).output)
        self.assertEqual({each["weight"] for each in told}, {None})
        self.assertEqual(told[1]["what"], "ASYNC_MASTER 0 of " + told[1]["what"].rpartition(" ")[2])

    def test_a_key_that_nobody_reads_is_a_note(self) -> None:
        told = json.loads(self.run_doctor("-c", self.conf(listenprot="1"), "--json", code=0).output)
        (noted,) = [each for each in told if each["name"] == "configuration"]
        self.assertEqual(noted["weight"], "note")
        self.assertIn("listenprot", noted["what"])

    def test_a_file_that_is_wrong_ends_there(self) -> None:
        conf = self.conf(listenPort="many")
        told = json.loads(self.run_doctor("-c", conf, "--json", code=1).output)
        self.assertEqual([each["name"] for each in told], ["versions", "configuration"])
        self.assertEqual(told[1]["weight"], "problem")
        self.assertIn(f"{conf}:1: listenPort", told[1]["what"])

    def test_a_certificate_that_isnt_one_or_isnt_there(self) -> None:
        pem = self.conf(nonsense="x")
        for path in (pem, "/nowhere.pem"):
            keys = ("-s", f"haTlsCertPath={path}", "-s", f"haTlsKeyPath={path}")
            told = json.loads(self.run_doctor(*keys, "--json", code=1).output)
            (wrong,) = [each for each in told if each["weight"] == "problem"]
            self.assertEqual(wrong["name"], "certificate")
            self.assertIn("haTlsCertPath: ", wrong["what"])
            self.assertIn(path, wrong["what"])


class HostFactsTests(SynchronousTestCase):
    def test_the_file_system_is_that_of_the_deepest_mount(self) -> None:
        mounts = Path(self.mktemp())
        mounts.write_text(
            "a / ext4 rw 0 0\nb /data nfs4 rw 0 0\nc /data/fast xfs rw 0 0\nd /data/fast tmpfs rw 0 0\n"
            "e /opt/deep btrfs rw 0 0\nf /opt ext3 rw 0 0\n"
        )
        for path, kind in (
            ("/srv/store", "ext4"),
            ("/data", "nfs4"),
            ("/data/slow/store", "nfs4"),
            ("/database", "ext4"),
            ("/data/fast/store", "tmpfs"),
            ("/opt/deep/store", "btrfs"),
        ):
            self.assertEqual(file_system_of(Path(path), mounts), kind, path)
        self.assertEqual(file_system_of(Path("/srv"), Path("/nowhere")), "")

    def test_the_clock_by_the_kernels_word(self) -> None:
        def library(state: int) -> object:
            return lambda name: SimpleNamespace(adjtimex=lambda timex: state)

        self.assertEqual([clock_synchronised(library(state)) for state in (0, 5, -1)], [True, False, None])
        self.assertIsNone(clock_synchronised(lambda name: SimpleNamespace()), "no such call here")

    def test_the_disk_is_that_of_the_folder_to_be_made(self) -> None:
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        asked: list[Path] = []
        usage = SimpleNamespace(total=1000, used=500, free=400)
        self.patch(hostfacts.shutil, "disk_usage", lambda path: asked.append(path) or usage)
        config = BrokerConfig(
            store_path_root_dir=str(folder / "not" / "yet"), mapped_file_size_commit_log=4096
        )
        found = disk_of(config)
        self.assertEqual(asked, [folder])
        self.assertEqual(found.folder, str(folder / "not" / "yet" / "commitlog"))
        self.assertEqual(
            (found.total, found.free, found.file_size), (900, 400, 4096), "100 are kept back for root"
        )
        self.assertTrue(found.writable)

    def test_limits_are_those_that_a_broker_will_have(self) -> None:
        told = {hostfacts.resource.RLIMIT_NOFILE: (1, 99), hostfacts.resource.RLIMIT_FSIZE: (1 << 20, -1)}
        self.patch(hostfacts.resource, "getrlimit", told.get)
        self.assertEqual(hostfacts.limits(), (99, 1 << 20))
        told[hostfacts.resource.RLIMIT_FSIZE] = (hostfacts.resource.RLIM_INFINITY, -1)
        self.assertEqual(hostfacts.limits(), (99, None))
