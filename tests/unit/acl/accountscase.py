"""Accounts of the sample file, and what they say of a request."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.accounts import AccessDenied, Accounts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.acl.files import SAMPLE

STRANGER = "10.9.9.9"


class AccountsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.accounts = Accounts({"plain_acl.yml": parse_acl_file(SAMPLE)})

    def refusal(self, command: RemotingCommand, host: str = STRANGER) -> str | None:
        """Why it is refused; None if it isn't."""
        try:
            self.accounts.check(command, host)
        except AccessDenied as error:
            return str(error)
        return None
