"""What each request takes is what the page for operators says: its table has every code of the protocol, once."""

from __future__ import annotations

import json
import re

from hatwisted.acl.accounts import Accounts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.acl.needs import ADMIN_CODES, ANY_ACCOUNT, NEEDS, NOT_A_BROKERS
from hatwisted.clientcore.credentials import Credentials
from hatwisted.wire.codes import RequestCode
from tests.support.pages import DOCS
from tests.unit.acl.accountscase import AccountsCase
from tests.unit.acl.files import ADMIN, SAMPLE, SECRET, request

NOTHING = Credentials("nothing", SECRET)
"""An account that may neither publish nor subscribe anywhere."""
FILE = (
    SAMPLE
    + b"""
- accessKey: nothing
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""
)
FIELDS = dict.fromkeys(("topic", "b", "group", "consumerGroup", "srcGroup", "destGroup"), "somebodys")
"""By all the names that requests have for a topic or a group."""
BODIES = {
    34: {"consumerDataSet": [{"groupName": "somebodys", "subscriptionDataSet": [{"topic": "somebodys"}]}]},
    41: {"consumerGroup": "somebodys"},
    42: {"consumerGroup": "somebodys"},
    20043: {"offsetTable": {"somebodys@somebodys": {}}},
}
"""Those that name them in their bodies."""
ADMINISTRATOR, ACCOUNT = "an administrator", "an account"


def page() -> list[tuple[list[int], str]]:
    """(codes, what they need) of each row."""
    text = (DOCS / "accounts.md").read_text().partition("## What an account may do")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    listed = [(re.findall(r"\((\d[\d, ]*)\)", requests), needs) for requests, needs in rows]
    return [([int(code) for each in lists for code in each.split(",")], needs) for lists, needs in listed[1:]]


class PageTests(AccountsCase):
    def setUp(self) -> None:
        super().setUp()
        self.accounts = Accounts({"f": parse_acl_file(FILE)})

    def refused(self, code: int, account: Credentials) -> str | None:
        body = json.dumps(BODIES[code]).encode() if code in BODIES else b""
        return self.refusal(request(code, account, body, **FIELDS))

    def test_it_has_every_code_once(self) -> None:
        self.assertEqual(sorted(code for codes, _ in page() for code in codes), sorted(RequestCode))

    def test_administration_is_for_administrators(self) -> None:
        codes = [code for codes, needs in page() if needs == ADMINISTRATOR for code in codes]
        for code in codes:
            self.assertIn(f"Need admin permission for request code={code},", str(self.refused(code, NOTHING)))
            self.assertIsNone(self.refused(code, ADMIN), code)
        self.assertGreater(len(codes), 20)

    def test_what_any_account_may_do_takes_one(self) -> None:
        codes = [code for codes, needs in page() if needs == ACCOUNT for code in codes]
        for code in codes:
            self.assertIsNone(self.refused(code, NOTHING), code)
            self.assertEqual(self.refusal(request(code, None)), "No accessKey is configured", code)
        self.assertGreater(len(codes), 50)

    def test_the_others_take_permissions(self) -> None:
        rows = [(codes, needs) for codes, needs in page() if needs not in (ADMINISTRATOR, ACCOUNT)]
        for codes, needs in rows:
            self.assertRegex(needs, "^(PUB|SUB) of ", codes)
            for code in codes:
                self.assertIn("No default permission for ", str(self.refused(code, NOTHING)), code)
                self.assertIsNone(self.refused(code, ADMIN), code)
        self.assertGreater(len(rows), 5)

    def test_every_code_is_in_one_table_of_the_program(self) -> None:
        groups = [set(ADMIN_CODES), set(ANY_ACCOUNT), set(NEEDS), set(NOT_A_BROKERS)]
        self.assertEqual(set().union(*groups), set(RequestCode))
        self.assertEqual(sum(map(len, groups)), len(RequestCode))
