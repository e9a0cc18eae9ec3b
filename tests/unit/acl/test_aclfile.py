"""ACL files: RocketMQ's own sample, entries that make no sense, and changes of the document."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl import aclfile
from hatwisted.acl.account import MAX_KEY_LENGTH, Account
from hatwisted.acl.aclfile import (
    MAX_NESTING,
    MAX_SIZE,
    encoded,
    parse_acl_file,
    with_account,
    with_addresses,
    without_account,
)
from hatwisted.acl.permissions import DENY, GROUP, PUB, SUB
from hatwisted.wire.registration import DataVersion
from hatwisted.wire.signing import SecretKey
from testbed.processes import REPOSITORY
from tests.unit.acl.files import SAMPLE, SECRET

REFUSED = {
    "- 1": "must have globalWhiteRemoteAddresses and accounts",
    "accounts: 7": "accounts must be a list of accounts",
    "accounts: [7]": "accounts must be a list of accounts",
    "accounts: [{secretKey: 12345678}]": "accessKey must have 7 to 256 characters, not 0",
    "accounts: [{accessKey: short, secretKey: 12345678}]": "accessKey must have 7 to 256 characters, not 5",
    "accounts: [{accessKey: somebody, secretKey: short}]": "account somebody: secretKey must have 7",
    "accounts: [{accessKey: somebody, secretKey: 12345678, topicPerms: [A]}]": "'A' must be NAME=PERMISSION",
    "accounts: [{accessKey: somebody, secretKey: 12345678, topicPerms: ['A=ALL']}]": "permission 'ALL'",
    "accounts: [{accessKey: somebody, secretKey: 12345678, topicPerms: A=PUB}]": "topicPerms must be a list",
    "accounts: [{accessKey: somebody, secretKey: 12345678, whiteRemoteAddress: 1.2}]": "must be text",
    "globalWhiteRemoteAddresses: [10.1.2]": "address pattern '10.1.2' must have 4 parts",
    "globalWhiteRemoteAddresses: 10.1.2.3": "must be a list of addresses",
    "accounts: [{accessKey: 1234567, secretKey: 1234567}, {accessKey: '1234567', secretKey: 1234567}]": "twice",
    "accounts: [\n  }": "not YAML",
    "[" * 5000: "not YAML",
    "x" * (MAX_SIZE + 1): "bytes, and an ACL file has at most",
}


def secret_of(account: Account) -> str | None:
    """Which of these tests' secrets it has."""
    made = account.secret_key.signature(b"")
    return next((each for each in (SECRET, "hush-hush") if SecretKey(each).signature(b"") == made), None)


class AclFileTests(SynchronousTestCase):
    def test_what_rocketmqs_sample_says(self) -> None:
        file = parse_acl_file(SAMPLE)
        self.assertEqual([each.text for each in file.addresses], ["10.10.103.*", "192.168.0.*"])
        user, admin = file.accounts
        self.assertEqual((user.access_key, secret_of(user), user.admin), ("RocketMQ", SECRET, False))
        self.assertEqual((user.default_topic, user.default_group), (DENY, SUB))
        self.assertEqual(
            user.resources,
            {
                GROUP + "groupA": DENY,
                GROUP + "groupB": PUB | SUB,
                GROUP + "groupC": SUB,
                "topicA": DENY,
                "topicB": PUB | SUB,
                "topicC": SUB,
            },
        )
        self.assertTrue(admin.admin and admin.white.matches("192.168.1.77"))
        self.assertEqual(file.version, DataVersion())

    def test_an_empty_file_has_no_accounts(self) -> None:
        for data in (b"", b"\n# nothing yet\n", b"accounts:\n"):
            self.assertEqual(parse_acl_file(data)[:2], ((), ()))

    def test_entries_that_make_no_sense_are_refused(self) -> None:
        for text, reason in REFUSED.items():
            error = self.assertRaises(ValueError, parse_acl_file, text.encode())
            self.assertIn(reason, str(error))
            self.assertNotIn("12345678", str(error))

    def test_objects_of_python_are_not_made(self) -> None:
        error = self.assertRaises(ValueError, parse_acl_file, b"!!python/object/apply:os.getcwd []")
        self.assertIn("could not determine a constructor", str(error))

    def test_nesting_without_end_is_refused(self) -> None:
        """PyYAML's C parser builds what is nested by recursion, which ends the process."""
        for open_, close in ((b"[", b"]"), (b"{a: ", b"}"), (b"- ", b""), (b"? ", b"")):
            for depth in (40, 30_000):
                nested = (
                    b"accounts: []\nother: "
                    + b"\n " * (open_ == b"- ")
                    + open_ * depth
                    + b"1"
                    + close * depth
                )
                error = self.assertRaises(ValueError, parse_acl_file, nested)
                self.assertIn("not YAML", str(error), open_)

    def test_nesting_and_accounts_have_a_number(self) -> None:
        for depth, refused in ((MAX_NESTING - 1, False), (MAX_NESTING, True)):  # the file is one level itself
            nested = b"accounts: []\nother: " + b"[" * depth + b"]" * depth
            self.assertEqual(self.is_refused(nested), refused, depth)
        self.patch(aclfile, "MAX_ACCOUNTS", 3)
        for count, refused in ((3, False), (4, True)):
            accounts = b"".join(b"- {accessKey: account%d, secretKey: a-secret}\n" % n for n in range(count))
            self.assertEqual(self.is_refused(b"accounts:\n" + accounts), refused, count)

    def test_keys_have_a_length(self) -> None:
        for length, refused in ((MAX_KEY_LENGTH, False), (MAX_KEY_LENGTH + 1, True)):
            for keys in ((b"k" * length, b"a-secret"), (b"account", b"s" * length)):
                entry = b"accounts: [{accessKey: %s, secretKey: %s}]" % keys
                self.assertEqual(self.is_refused(entry), refused, length)

    def is_refused(self, data: bytes) -> bool:
        try:
            parse_acl_file(data)
        except ValueError:
            return True
        return False

    def test_a_broken_line_is_named_and_not_shown(self) -> None:
        error = self.assertRaises(ValueError, parse_acl_file, b"accounts:\n- secretKey: 'hush-hush\n")
        self.assertIn("line 3", str(error))
        self.assertNotIn("hush", str(error))

    def test_a_secret_is_in_no_repr(self) -> None:
        self.assertNotIn(SECRET, repr(parse_acl_file(SAMPLE).accounts))

    def test_a_changed_account_keeps_what_is_not_given_and_the_file_what_is_not_known(self) -> None:
        document = parse_acl_file(SAMPLE + b"ours: kept\n").document
        changed = with_account(
            document, {"accessKey": "RocketMQ", "topicPerms": ["topicA=PUB"], "admin": True}
        )
        file = parse_acl_file(encoded(changed, DataVersion(counter=3, timestamp=77)))
        self.assertEqual(file.document["ours"], "kept")
        self.assertEqual(file.version, DataVersion(counter=3, timestamp=77))
        self.assertEqual(file.accounts[0].resources["topicA"], PUB)
        self.assertEqual(file.accounts[0].resources[GROUP + "groupC"], SUB)
        self.assertEqual((file.accounts[0].admin, secret_of(file.accounts[0])), (True, SECRET))
        self.assertEqual(len(file.accounts), 2)

    def test_accounts_come_and_go(self) -> None:
        document = parse_acl_file(b"").document
        grown = with_account(document, {"accessKey": "newcomer", "secretKey": "hush-hush"})
        self.assertEqual(
            [each.access_key for each in parse_acl_file(encoded(grown, DataVersion())).accounts], ["newcomer"]
        )
        self.assertEqual(without_account(grown, "newcomer")["accounts"], [])

    def test_a_change_that_the_next_start_would_refuse_is_refused(self) -> None:
        document = parse_acl_file(SAMPLE).document
        self.assertRaises(ValueError, with_account, document, {"accessKey": "RocketMQ", "topicPerms": ["x"]})
        self.assertRaises(ValueError, with_addresses, document, ["10.1"])


class StartTests(SynchronousTestCase):
    def test_nothing_is_imported_at_a_start_that_only_files_with_accounts_need(self) -> None:
        """Each server and each command would take 9 to 18 ms longer."""
        early = re.compile(
            r"^(?:import|from) (?:yaml|cryptography\.hazmat\.primitives\.hmac)\b", re.MULTILINE
        )
        sources = list((REPOSITORY / "hatwisted").rglob("*.py"))
        self.assertGreater(len(sources), 100)
        self.assertEqual([path for path in sources if early.search(path.read_text())], [])
