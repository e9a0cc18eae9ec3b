"""The folder of accounts: what is read, changes by editors and by administrators, and files that can't be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import Logger, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl import aclfiles, audittrail
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.acl.aclfiles import MAX_DEPTH, WATCH_INTERVAL, AclError, AclFiles, AclPlaces
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.wire.registration import DataVersion
from tests.support.rewriting import put_in_place, rewrite
from tests.unit.acl.files import SAMPLE

ANOTHER = b"accounts: [{accessKey: another, secretKey: hush-hush}]\n"


class AclFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        (self.folder / "acl" / "more").mkdir(parents=True)
        self.main = self.folder / "plain_acl.yml"
        self.main.write_bytes(SAMPLE)
        self.clock = Clock()
        self.clock.advance(1_795_221_957)
        places = AclPlaces(main=str(self.main), folder=str(self.folder / "acl"))
        self.files = AclFiles(places, PosixFileSystem(), InlineWorker(), self.clock)

    def audited(self) -> list[tuple[str, dict[str, Any]]]:
        """From now on: (event, what it says) of each line of the audit."""
        lines: list[tuple[str, dict[str, Any]]] = []

        def note(event: Any) -> None:
            _, name, text = formatEvent(event).split(" ", 2)
            lines.append((name, json.loads(text)))

        self.patch(audittrail, "_log", Logger(observer=note))
        return lines

    def known(self) -> set[str]:
        documents = self.files.documents.values()
        return {entry["accessKey"] for document in documents for entry in document["accounts"]}

    def refusal(self, waiting: Any) -> str:
        return str(self.failureResultOf(waiting, AclError).value)

    def test_all_files_below_the_folder_count(self) -> None:
        (self.folder / "acl" / "more" / "a.yaml").write_bytes(ANOTHER)
        (self.folder / "acl" / "tools.yml").write_bytes(ANOTHER)
        (self.folder / "acl" / "notes.txt").write_bytes(b"no YAML: [")
        self.files.load()
        self.assertEqual(self.known(), {"RocketMQ", "rocketmq2", "another"})

    def test_files_and_folders_in_folders_have_a_number(self) -> None:
        deep = self.folder / "acl"
        for _ in range(MAX_DEPTH):
            deep = deep / "in"
            deep.mkdir()
        (deep / "a.yml").write_bytes(ANOTHER)
        self.files.load()
        self.assertNotIn("another", self.known(), "too deep to be looked for")
        (deep.parent / "a.yml").write_bytes(ANOTHER)
        self.files.load()
        self.assertIn("another", self.known())
        self.patch(aclfiles, "MAX_FILES", 2)
        (deep.parent / "b.yml").write_bytes(b"accounts: []")
        error = self.assertRaises(AclError, self.files.load)
        self.assertEqual(str(error), f"{self.folder / 'acl'} holds more than 2 files")

    def test_a_missing_or_broken_file_ends_the_start(self) -> None:
        self.main.write_bytes(b"accounts: 7")
        error = self.assertRaises(AclError, self.files.load)
        self.assertEqual(str(error), f"{self.main}: accounts must be a list of accounts")
        self.main.unlink()
        self.assertIn("create it, with an account", str(self.assertRaises(AclError, self.files.load)))

    def test_an_edited_file_holds_within_the_interval(self) -> None:
        self.files.load()
        self.files.start()
        self.addCleanup(self.files.stop)
        self.main.write_bytes(ANOTHER)
        self.clock.advance(WATCH_INTERVAL - 0.1)
        self.assertEqual(self.known(), {"RocketMQ", "rocketmq2"})
        self.clock.advance(0.1)
        self.assertEqual(self.known(), {"another"})
        (self.folder / "acl" / "b.yml").write_bytes(ANOTHER.replace(b"another", b"one-more"))
        self.clock.advance(WATCH_INTERVAL)
        self.assertEqual(self.known(), {"another", "one-more"})
        (self.folder / "acl" / "b.yml").unlink()
        self.clock.advance(WATCH_INTERVAL)
        self.assertEqual(self.known(), {"another"})

    def test_what_an_editor_has_changed_is_in_the_audit(self) -> None:
        self.files.load()
        self.files.start()
        self.addCleanup(self.files.stop)
        lines = self.audited()
        self.main.write_bytes(
            SAMPLE.replace(b"12345678", b"87654321", 1).replace(b"192.168.0.*", b"10.1.1.1")
        )
        (self.folder / "acl" / "a.yml").write_bytes(ANOTHER)
        self.clock.advance(WATCH_INTERVAL)
        ((event, said),) = lines
        self.assertEqual((event, said["by"], said["from"]), ("accounts.reread", None, "file"))
        before, after = said["before"], said["after"]
        self.assertEqual((before["accounts"].keys(), after["accounts"].keys()), (
            {"RocketMQ"}, {"RocketMQ", "another"},
        ))  # fmt: skip
        mark = before["accounts"]["RocketMQ"].pop("secretKey")
        self.assertRegex(mark, "^hidden, [0-9a-f]{8}$")
        self.assertNotEqual(after["accounts"]["RocketMQ"].pop("secretKey"), mark)
        self.assertEqual(before["accounts"]["RocketMQ"], after["accounts"]["RocketMQ"])
        main, added = "globalWhiteRemoteAddresses", str(self.folder / "acl" / "a.yml")
        self.assertEqual(before[main], {str(self.main): ["10.10.103.*", "192.168.0.*"]})
        self.assertEqual(after[main], {str(self.main): ["10.10.103.*", "10.1.1.1"], added: []})
        for secret in ("12345678", "87654321", "hush-hush"):
            self.assertNotIn(secret, json.dumps(said))

        self.main.write_bytes(self.main.read_bytes() + b"# a remark\n")
        self.clock.advance(WATCH_INTERVAL)
        self.assertEqual(len(lines), 1, "nothing of it counts")

    def test_what_an_editor_has_changed_before_an_administrator_does_too(self) -> None:
        self.files.load()
        self.main.write_bytes(ANOTHER)
        lines = self.audited()
        self.successResultOf(self.files.put_account({"accessKey": "newcomer", "secretKey": "hush-hush"}))
        ((event, said),) = lines
        self.assertEqual((event, [*said["after"]["accounts"]]), ("accounts.reread", ["another"]))
        self.successResultOf(self.files.delete_account("newcomer"))
        self.assertEqual(len(lines), 1)

    def test_a_file_of_the_same_size_and_time_is_read_again(self) -> None:
        self.main.write_bytes(ANOTHER)
        self.files.load()
        self.files.start()
        self.addCleanup(self.files.stop)
        for change, name in ((rewrite, b"changed"), (put_in_place, b"swapped")):
            change(self.main, ANOTHER.replace(b"another", name))
            self.clock.advance(WATCH_INTERVAL)
            self.assertEqual(self.known(), {name.decode()})

    def test_a_broken_edit_changes_nothing_and_is_logged_once(self) -> None:
        self.files.load()
        self.files.start()
        self.addCleanup(self.files.stop)
        self.main.write_bytes(b"accounts: 7")
        self.clock.pump([WATCH_INTERVAL] * 3)
        self.assertEqual(self.known(), {"RocketMQ", "rocketmq2"})
        self.main.unlink()
        self.clock.pump([WATCH_INTERVAL] * 3)
        self.assertEqual(self.known(), {"RocketMQ", "rocketmq2"})
        self.main.write_bytes(ANOTHER)
        self.clock.advance(WATCH_INTERVAL)
        self.assertEqual(self.known(), {"another"})

    def test_a_new_account_goes_into_the_main_file_and_counts_its_version(self) -> None:
        self.files.load()
        self.successResultOf(self.files.put_account({"accessKey": "newcomer", "secretKey": "hush-hush"}))
        self.assertIn("newcomer", self.known())
        written = parse_acl_file(self.main.read_bytes())
        self.assertEqual(
            [each.access_key for each in written.accounts], ["RocketMQ", "rocketmq2", "newcomer"]
        )
        self.assertEqual(written.version, DataVersion(counter=1, timestamp=1_795_221_957_000))
        self.assertEqual(self.files.main_version, written.version)

    def test_a_known_account_is_changed_where_it_is(self) -> None:
        other = self.folder / "acl" / "a.yml"
        other.write_bytes(ANOTHER)
        self.files.load()
        self.successResultOf(self.files.put_account({"accessKey": "another", "secretKey": "new-secret"}))
        self.assertEqual(self.main.read_bytes(), SAMPLE)
        self.assertEqual(
            parse_acl_file(other.read_bytes()).document["accounts"][0]["secretKey"], "new-secret"
        )
        self.successResultOf(self.files.delete_account("another"))
        self.assertEqual(parse_acl_file(other.read_bytes()).accounts, ())

    def test_a_change_starts_from_what_an_editor_has_written_meanwhile(self) -> None:
        self.files.load()
        self.main.write_bytes(ANOTHER)
        self.successResultOf(self.files.put_account({"accessKey": "newcomer", "secretKey": "hush-hush"}))
        self.assertEqual(self.known(), {"another", "newcomer"})

    def test_changes_that_cannot_be_made(self) -> None:
        self.files.load()
        self.assertEqual(self.refusal(self.files.delete_account("nobody!")), "there is no account nobody!")
        self.assertIn("must have 4 parts", self.refusal(self.files.put_addresses(["10.1"], "")))
        self.assertIn("not one of the files", self.refusal(self.files.put_addresses([], "/etc/passwd")))
        self.assertIn("secretKey", self.refusal(self.files.put_account({"accessKey": "newcomer"})))
        self.assertEqual(self.main.read_bytes(), SAMPLE)

    def test_addresses_of_one_file(self) -> None:
        self.files.load()
        self.successResultOf(self.files.put_addresses(["10.0.0.*"], str(self.main)))
        self.assertEqual(parse_acl_file(self.main.read_bytes()).addresses[0].text, "10.0.0.*")

    def test_a_written_file_keeps_its_permissions_and_its_link(self) -> None:
        real = self.folder / "elsewhere.yml"
        os.replace(self.main, real)
        self.main.symlink_to(real)
        real.chmod(0o600)
        self.files.load()
        self.successResultOf(self.files.delete_account("RocketMQ"))
        self.assertTrue(self.main.is_symlink())
        self.assertEqual(real.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.known(), {"rocketmq2"})
