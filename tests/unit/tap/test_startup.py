"""What twistd calls before its reactor runs: a service, or one line and an exit status."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.orders import Orders
from hatwisted.config.errors import SettingError
from hatwisted.config.load import Loaded, load_broker_config
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import DamagedLog, StoreError
from hatwisted.tap import hanamesrv, haslave
from hatwisted.tap.startup import BrokerOptions, Rereading, make_service, one_line
from hatwisted.tap.storecheck import check_settings_file, check_store
from hatwisted.tap.supervisor import Supervisor
from hatwisted.timing.garbage import THRESHOLDS
from tests.support.loopback import HOST
from tests.unit.ha.rig import LogCatcher

NOT_GIVEN = (
    "--set: authenticationEnabled=true: not the accounts of 5.x, but those of aclEnable are understood"
)
WAYS_OUT = "remove it, or start with --allow-open"

Build = Callable[[BrokerConfig, Any], IService]


def load(path: str | None, overrides: list[str], environ: Mapping[str, str]) -> Loaded[BrokerConfig]:
    return load_broker_config(path, overrides, host=HOST, environ={})


class StartupCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.built: list[BrokerConfig] = []
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        self.patch(sys, "stdout", self.stdout)
        self.patch(sys, "stderr", self.stderr)
        self.patch(sys, "excepthook", sys.excepthook)
        # A server that starts looks for garbage in all that there is, which in a process of tests takes seconds.
        self.patch(gc, "collect", lambda generation=2: 0)
        self.addCleanup(gc.freeze)  # which a server that is stopped has undone

    def conf(self, text: str) -> str:
        folder = self.mktemp()
        os.makedirs(folder)
        path = os.path.join(folder, "broker.conf")
        Path(path).write_text(text)
        return path

    def build(self, config: BrokerConfig, reactor: Any) -> IService:
        self.built.append(config)
        return Service()

    def make(
        self, *arguments: str, build: Build | None = None, twistd: dict[str, Any] | None = None
    ) -> IService:
        options = BrokerOptions()
        if twistd is not None:
            options.parent = {"umask": None, **twistd}  # type: ignore[assignment]
        options.parseOptions(list(arguments))
        return make_service("hamaster", options, load, build or self.build)

    def refusal(self, *arguments: str, build: Build | None = None) -> str:
        ended = self.assertRaises(SystemExit, self.make, *arguments, build=build)
        self.assertEqual(ended.code, 1)
        text = self.stderr.getvalue()
        self.assertEqual(text.count("\n"), 1, text)
        return text.rstrip("\n")


class Startup(StartupCase):
    def test_options_reach_the_service(self) -> None:
        path = self.conf("listenPort=10921\nbrokerName=broker-b\n")
        self.make("-c", path, "--set", "listenPort=20911", "-s", "brokerIP1=10.0.0.1", "-n", "a:1;b:2")
        (config,) = self.built
        self.assertEqual((config.listen_port, config.broker_name), (20911, "broker-b"))
        self.assertEqual((config.broker_ip1, config.name_servers), ("10.0.0.1", ["a:1", "b:2"]))

    def test_a_wrong_value_is_one_line_and_status_1(self) -> None:
        path = self.conf("\nbrokerRole=MASTER\n")
        self.assertEqual(
            self.refusal("--conf", path),
            f"hamaster: {path}:2: brokerRole: can't be 'MASTER'; "
            "allowed: one of ASYNC_MASTER, SYNC_MASTER, SLAVE",
        )
        self.assertEqual(self.built, [])

    def test_faults_of_folders_are_one_line(self) -> None:
        def broken(config: BrokerConfig, reactor: Any) -> IService:
            raise PermissionError(13, "Permission denied", "/data/store/lock")

        self.assertEqual(self.refusal(build=broken), "hamaster: /data/store/lock: Permission denied")

    def test_what_a_setting_leads_to_is_reported_with_its_place(self) -> None:
        def unable(config: BrokerConfig, reactor: Any) -> IService:
            raise SettingError("listenPort", "can't listen")

        path = self.conf("# a\nlistenPort=10921\n")
        self.assertEqual(
            self.refusal("--conf", path, build=unable), f"hamaster: {path}:2: listenPort: can't listen"
        )

    def test_our_own_faults_keep_their_traceback(self) -> None:
        def broken(config: BrokerConfig, reactor: Any) -> IService:
            raise RuntimeError("a bug")

        self.assertRaises(RuntimeError, self.make, build=broken)

    def test_B18_print_config_prints_and_ends(self) -> None:
        ended = self.assertRaises(SystemExit, self.make, "--print-config", "--set", "brokerName=x")
        self.assertEqual(ended.code, 0)
        self.assertIn("brokerName=x\n", self.stdout.getvalue())
        self.assertIn("haTransferBatchSize=32768\n", self.stdout.getvalue())
        self.assertEqual(self.built, [])

    def test_haslave_without_a_file_is_a_slave(self) -> None:
        for given, broker_id in (([], 1), (["--set", "brokerId=3"], 3)):
            options = haslave.Options()
            options.parseOptions(["--print-config", *given])
            ended = self.assertRaises(SystemExit, haslave.makeService, options)
            self.assertEqual(ended.code, 0)
            self.assertIn("\nbrokerRole=SLAVE\n", self.stdout.getvalue())
            self.assertIn(f"\nbrokerId={broker_id}\n", self.stdout.getvalue())

    def test_warnings_are_logged(self) -> None:
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        self.make("--conf", self.conf("brokerRol=SLAVE\n"))
        self.assertTrue(any("did you mean brokerRole?" in event.get("line", "") for event in events))

    def test_warnings_reach_the_terminal_that_a_daemon_leaves(self) -> None:
        self.make("--conf", self.conf("brokerRol=SLAVE\n"))
        line = self.stderr.getvalue()
        self.assertTrue(line.startswith("hamaster: warning: ") and line.count("\n") == 1, line)
        self.assertIn("did you mean brokerRole?", line)

    def test_a_log_on_the_terminal_says_them_once(self) -> None:
        for twistd, shown in (
            ({"nodaemon": True, "logfile": None}, 0),
            ({"nodaemon": True, "logfile": "-"}, 0),
            ({"nodaemon": True, "logfile": "a.log"}, 1),
            ({"nodaemon": False, "logfile": None}, 1),
        ):
            self.patch(sys, "stderr", stderr := io.StringIO())
            self.make("--conf", self.conf("brokerRol=SLAVE\n"), twistd=twistd)
            self.assertEqual(stderr.getvalue().count("did you mean"), shown, twistd)

    def test_print_config_tells_warnings_apart_from_the_configuration(self) -> None:
        path = self.conf("brokerRol=SLAVE\n")
        self.assertRaises(SystemExit, self.make, "--print-config", "--conf", path)
        self.assertNotIn("did you mean", self.stdout.getvalue())
        self.assertIn("did you mean brokerRole?", self.stderr.getvalue())

    def test_print_config_says_that_it_wouldnt_start(self) -> None:
        asked = ("--print-config", "--set", "authenticationEnabled=true")
        ended = self.assertRaises(SystemExit, self.make, *asked)
        self.assertEqual(ended.code, 1)
        self.assertEqual(self.stderr.getvalue(), f"hamaster: {NOT_GIVEN}; {WAYS_OUT}\n")
        self.assertIn("haTransferBatchSize=32768\n", self.stdout.getvalue())

        self.patch(sys, "stderr", stderr := io.StringIO())
        ended = self.assertRaises(SystemExit, self.make, *asked, "--allow-open")
        self.assertEqual(ended.code, 0)
        self.assertEqual(stderr.getvalue(), f"hamaster: warning: {NOT_GIVEN}\n")

    def test_what_asks_for_protection_that_isnt_given_starts_by_allow_open_alone(self) -> None:
        asked = ("--set", "authenticationEnabled=true")
        self.assertEqual(self.refusal(*asked), f"hamaster: {NOT_GIVEN}; {WAYS_OUT}")
        self.assertEqual(self.built, [])

        caught = LogCatcher(self)
        self.patch(sys, "stderr", stderr := io.StringIO())
        self.make(*asked, "--allow-open")
        self.assertEqual(len(self.built), 1)
        self.assertEqual(stderr.getvalue(), f"hamaster: warning: {NOT_GIVEN}\n")
        self.assertEqual(caught.texts("warn"), [NOT_GIVEN])

        self.make("--allow-open")
        self.assertEqual(len(self.built), 2)
        self.assertEqual(caught.texts("warn"), [NOT_GIVEN])

    def test_a_name_server_that_asks_for_it_doesnt_start_either(self) -> None:
        for key in ("useTLS", "tls.enable"):
            self.patch(sys, "stderr", stderr := io.StringIO())
            options = hanamesrv.Options()
            options.parseOptions(["--set", f"{key}=true"])
            ended = self.assertRaises(SystemExit, hanamesrv.makeService, options)
            self.assertEqual(ended.code, 1)
            line = stderr.getvalue()
            self.assertTrue(
                line.startswith(f"hanamesrv: --set: {key}=true: a name server calls nobody"), line
            )

    def test_a_server_that_serves_everybody_says_so_on_the_terminal(self) -> None:
        self.assertEqual(
            self.told(),
            "hamaster: warning: everybody who reaches 0.0.0.0:10911 is served: set listenAllowList, aclEnable or "
            "tls.server.mode=enforcing, and haAllowList, or bindAddress=127.0.0.1\n",
        )
        self.assertEqual(self.told("--set", "bindAddress=::1"), "")
        for protected in ("listenAllowList=10.0.0.0/8", "aclEnable=true"):
            self.assertRegex(self.told("--set", protected), ":10912 is sent the whole log.*: set haAllowList")
            closed = (protected, "haAllowList=10.0.0.2", "namesrvAddr=10.0.0.9:9876")
            self.assertEqual(self.told(*(word for each in closed for word in ("--set", each))), "")

    def test_garbage_is_looked_for_in_short_while_it_runs(self) -> None:
        """From when all is loaded on: that needn't be looked at again."""
        seen: list[Any] = []

        class Loading(Service):
            def startService(self) -> None:
                seen.append((gc.get_threshold(), self))

        before = gc.get_threshold()
        service = self.make(build=lambda config, reactor: Loading())
        self.addCleanup(vars(reactor).pop, "seconds", None)
        service.startService()
        ((while_loading, loaded),) = seen
        self.assertEqual((while_loading, gc.get_threshold()), (before, THRESHOLDS))
        self.assertFalse(any(each is loaded for each in gc.get_objects()))
        service.stopService()
        self.assertEqual(gc.get_threshold(), before)

    def test_a_log_on_the_terminal_says_so_in_its_place(self) -> None:
        caught = LogCatcher(self)
        self.assertEqual(self.told(twistd={"nodaemon": True, "logfile": None}), "")
        self.assertIn("0.0.0.0:10911 is served", self.told(twistd={"nodaemon": True, "logfile": "a.log"}))
        said = [text for text in caught.texts("warn") if "0.0.0.0:10911 is served" in text]
        self.assertEqual(len(said), 2)

    def told(self, *arguments: str, twistd: dict[str, Any] | None = None) -> str:
        """What the terminal shows of a start."""
        reading, writing = os.pipe()
        self.patch(os, "dup", lambda descriptor: writing)
        service = self.make(*arguments, twistd=twistd)
        self.addCleanup(vars(reactor).pop, "seconds", None)
        service.startService()
        service.stopService()
        with os.fdopen(reading) as terminal:
            return terminal.read()

    def test_a_secret_on_the_command_line_is_told_by_its_key(self) -> None:
        caught = LogCatcher(self)
        for key in ("haTlsKeyPassword", "tls.client.keyPassword", "tls.server.keyPassword"):
            self.patch(sys, "stderr", stderr := io.StringIO())
            self.make("--set", f"{key}=hush-hush")
            self.assertEqual(
                stderr.getvalue(),
                f"hamaster: warning: --set: {key}: any user of this host may read it in the list of processes: "
                "write it into the file that --conf names\n",
            )
            self.patch(sys, "stderr", stderr := io.StringIO())
            self.make("--set", f"{key}=")
            self.make("--conf", self.conf(f"{key}=hush-hush\n"))
            self.assertEqual(stderr.getvalue(), "")
        self.assertNotIn("hush-hush", "".join(caught.texts("warn")))
        self.assertEqual(len(caught.texts("warn")), 3)

    def test_files_with_secrets_that_any_user_may_read_are_named(self) -> None:
        conf = Path(self.conf("bindAddress=127.0.0.1\ntls.server.keyPassword=hush-hush\n")).absolute()
        folder = conf.parent
        accounts, more = folder / "plain_acl.yml", folder / "acl" / "in" / "more.yml"
        shared, key, account = folder / "tls.properties", folder / "ha.key", folder / "tools.yml"
        more.parent.mkdir(parents=True)
        for file in (accounts, more, key, account):
            file.touch()
        shared.write_text("tls.client.keyPassword=hush-hush\n")
        given = ["--conf", str(conf)]
        for entry in (
            f"tls.config.file={shared}",
            f"haTlsKeyPath={key}",
            f"credentialsFile={account}",
            "aclEnable=true",
            f"aclPlainFile={accounts}",
            "haAllowList=127.0.0.1",
        ):
            given += "--set", entry
        secret = (conf, shared, key, account, accounts, more)
        for file in secret:
            file.chmod(0o640)
        self.assertEqual(self.told(*given), "")
        for modes, named in (((0o644,), 1), ((0o602,), 1), ((0o644, 0o604, 0o666, 0o646, 0o777, 0o645), 6)):
            for file, mode in zip(secret, modes, strict=False):
                file.chmod(mode)
            names = {f"{file}" for file in secret[:named]}
            start, _, files = self.told(*given).rstrip("\n").partition(": chmod o= ")
            self.assertEqual(
                start, "hamaster: warning: any user of this host may read or change what is secret"
            )
            self.assertEqual(set(files.split()), names)

    def test_a_file_without_a_secret_may_be_read_by_anybody(self) -> None:
        conf = Path(self.conf("bindAddress=127.0.0.1\ntls.server.keyPassword=\n"))
        conf.chmod(0o644)
        self.assertEqual(self.told("--conf", str(conf)), "")

    def test_positional_arguments_are_a_usage_error(self) -> None:
        self.assertRaises(UsageError, self.make, "broker.conf")


class LateFailures(StartupCase):
    """Faults that show only when services start, after twistd's fork."""

    def test_they_are_logged_and_the_exception_hook_tells_them_in_one_line(self) -> None:
        class Refusing(Service):
            def startService(self) -> None:
                raise DamagedLog(1000, 2000, 3000, "body CRC differs", "/store/commitlog/0")

        service = self.make(build=lambda config, reactor: Refusing())
        self.addCleanup(vars(reactor).pop, "seconds", None)
        self.addCleanup(service.stopService)
        error = self.assertRaises(DamagedLog, service.startService)
        sys.excepthook(DamagedLog, error, None)
        line = self.stderr.getvalue()
        self.assertTrue(
            line.startswith("hamaster: commit log damaged at offset 1000 (body CRC differs) in /store/"), line
        )
        self.assertEqual(line.count("\n"), 1)

    def test_the_exception_hook_leaves_other_errors_alone(self) -> None:
        self.make()
        sys.excepthook(RuntimeError, RuntimeError("a bug"), None)
        self.assertEqual(self.stderr.getvalue(), "RuntimeError: a bug\n")

    def test_line_breaks_never_reach_the_line(self) -> None:
        self.assertEqual(one_line(StoreError("a\nb")), "a b")
        self.assertEqual(one_line(OSError(28, "No space left on device")), "No space left on device")
        self.assertEqual(one_line(StoreError()), "StoreError")


class SettingsCheck(SynchronousTestCase):
    """A name server that couldn't keep its settings doesn't start."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()

    def check(self, path: Path) -> None:
        check_settings_file(NamesrvConfig(kv_config_path=str(path)))

    def refused(self, path: Path, reason: str) -> None:
        error = self.assertRaises(SettingError, self.check, path)
        self.assertEqual((error.key, str(error)), ("kvConfigPath", reason))

    def test_a_file_that_can_be_written_or_made(self) -> None:
        self.check(self.folder / "a" / "kvConfig.json")
        self.assertFalse(self.folder.exists())
        self.folder.mkdir()
        (self.folder / "kvConfig.json").write_text("{}")
        self.check(self.folder / "kvConfig.json")

    def test_what_is_in_its_place(self) -> None:
        self.folder.mkdir()
        self.refused(self.folder, f"{self.folder} is a folder")
        file = self.folder / "file"
        file.write_text("")
        self.refused(file / "deeper" / "kvConfig.json", f"{file} is not a folder")

    def test_permissions(self) -> None:
        self.folder.mkdir()
        path = self.folder / "kvConfig.json"
        self.patch(os, "access", lambda path, mode: False)  # root may do everything
        self.refused(path, f"{self.folder}: no permission to write in this folder")
        path.write_text("{}")
        self.refused(path, f"{path}: no permission to read this file")

    def test_the_name_server_says_so_in_one_line(self) -> None:
        self.folder.mkdir()
        options = hanamesrv.Options()
        options.parseOptions(["--set", f"kvConfigPath={self.folder}"])
        stderr = io.StringIO()
        self.patch(sys, "stderr", stderr)
        self.patch(sys, "excepthook", sys.excepthook)
        error = self.assertRaises(SystemExit, hanamesrv.makeService, options)
        self.assertEqual(error.code, 1)
        line = stderr.getvalue()
        self.assertTrue(line.startswith("hanamesrv: ") and line.count("\n") == 1, line)
        self.assertIn(f"kvConfigPath: {self.folder} is a folder", line)


class StoreCheck(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = os.path.abspath(self.mktemp())
        self.fs = PosixFileSystem()
        self.config = BrokerConfig(store_path_root_dir=self.root)

    def test_a_new_store_is_made(self) -> None:
        check_store(self.fs, self.config)
        self.assertTrue(os.path.isdir(os.path.join(self.root, "commitlog")))

    def test_a_store_in_use_is_refused_and_the_lock_is_not_kept(self) -> None:
        check_store(self.fs, self.config)
        held = self.fs.lock(os.path.join(self.root, "lock"))
        error = self.assertRaises(SettingError, check_store, self.fs, self.config)
        self.assertIn(self.root, str(error))
        held.release()
        check_store(self.fs, self.config)

    def test_a_file_in_the_folders_place(self) -> None:
        Path(self.root).write_text("")
        error = self.assertRaises(SettingError, check_store, self.fs, self.config)
        self.assertEqual((error.key, str(error)), ("storePathRootDir", f"{self.root}: File exists"))

    def test_files_of_another_size_and_nothing_is_changed(self) -> None:
        for folder, key in (
            ("commitlog", "mappedFileSizeCommitLog"),
            ("consumequeue/T/0", "mappedFileSizeConsumeQueue"),
        ):
            path = Path(self.root, folder)
            path.mkdir(parents=True)
            file = path / ("0" * 20)
            file.write_bytes(b"12345")
            error = self.assertRaises(SettingError, check_store, self.fs, self.config)
            self.assertEqual(error.key, key)
            self.assertIn(f"{file} has 5 bytes", str(error))
            file.unlink()

    def test_an_unreadable_folder(self) -> None:
        os.makedirs(self.root)
        self.patch(os, "access", lambda path, mode: False)  # root may read everything
        error = self.assertRaises(SettingError, check_store, self.fs, self.config)
        self.assertEqual(str(error), f"{self.root}: no permission to read and write this folder")


class RereadingTests(StartupCase):
    def test_a_log_that_cant_be_opened_again_is_no_reason_not_to_read(self) -> None:
        options = BrokerOptions()
        options.parseOptions(["--conf", self.conf("brokerPermission=4\n")])
        orders, taken = Orders(), []
        orders.on_reread(lambda before, now: taken.append(now.broker_permission))
        config = load(None, [], {}).config
        rereading = Rereading(options, load, config, orders, Supervisor(None, Clock(), None, lambda: 0))

        def gone() -> None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/log/b.log")

        options.log_plan.reopen = gone
        caught = LogCatcher(self)
        rereading.again()
        self.assertEqual(taken, [4])
        self.assertEqual(
            caught.texts("error"),
            ["the log isn't opened again: /log/b.log: No such file or directory; it goes on where it was"],
        )

    def test_paths_mean_what_they_meant_at_the_start(self) -> None:
        """A daemon changes to its --rundir after the configuration is read."""
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        folder, elsewhere = self.mktemp(), self.mktemp()
        for each in (folder, elsewhere):
            os.makedirs(each)
        elsewhere = os.path.abspath(elsewhere)
        os.chdir(folder)
        Path("b.conf").write_text("brokerPermission=6\nstorePathRootDir=store\n")
        options = BrokerOptions()
        options.parseOptions(["--conf", "b.conf"])
        orders, taken = Orders(), []
        orders.on_reread(lambda before, now: taken.append((before, now)))
        config = load("b.conf", [], {}).config
        rereading = Rereading(options, load, config, orders, Supervisor(None, Clock(), None, lambda: 0))
        Path("b.conf").write_text("brokerPermission=4\nstorePathRootDir=store\n")
        os.chdir(elsewhere)
        rereading.again()
        self.assertEqual([now.broker_permission for _, now in taken], [4])
        self.assertEqual(taken[0][1].store_path_root_dir, config.store_path_root_dir)
        self.assertEqual(os.getcwd(), elsewhere)

    def test_what_could_not_be_taken_is_offered_again(self) -> None:
        path = self.conf("brokerPermission=4\n")
        options = BrokerOptions()
        options.parseOptions(["--conf", path])
        orders, taken = Orders(), []

        def take(before: Any, now: Any) -> None:
            taken.append((before.broker_permission, now.broker_permission))
            if len(taken) == 1:
                raise OSError(errno.EACCES, "Permission denied", path)

        orders.on_reread(take)
        config = load(None, [], {}).config
        rereading = Rereading(options, load, config, orders, Supervisor(None, Clock(), None, lambda: 0))
        for _ in range(3):
            rereading.again()
        self.assertEqual(taken, [(6, 4), (6, 4), (4, 4)])
