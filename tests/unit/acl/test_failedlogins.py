"""Keys that are tried: how often, and who else is touched by it."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.logger import Logger, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.accounts import Accounts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.acl.failedlogins import FailedLogins
from hatwisted.acl.requestguard import RequestGuard
from hatwisted.clientcore.credentials import Credentials
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.acl.files import ADMIN, SAMPLE, USER, request

RATE = 8
AT_ONCE = RATE + 1
BUSY, WRONG = ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR
HOST, OTHER = "127.0.0.1", "10.9.9.9"
LOOKS = RequestCode.GET_BROKER_RUNTIME_INFO


class FailedLoginsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.tries = FailedLogins(RATE, self.clock)
        accounts = Accounts({"plain_acl.yml": parse_acl_file(SAMPLE)})
        self.guard = RequestGuard(lambda: accounts, self.clock, None, self.tries)
        self.lines: list[str | None] = []
        self.patch(self.tries, "_log", Logger(observer=lambda event: self.lines.append(formatEvent(event))))

    def connection(self, address: str = HOST) -> RemotingConnection:
        made = RemotingConnection()
        made.address = address
        return made

    def ask(self, connection: RemotingConnection, *requests: RemotingCommand) -> list[int]:
        """The codes of answers; 0 for what is served."""
        denials = self.guard.denials(requests, connection) or [None] * len(requests)
        return [0 if denial is None else denial.code for denial in denials]

    def wrong(self, account: Credentials = USER) -> RemotingCommand:
        return request(LOOKS, Credentials(account.access_key, "wrong-key"))

    def drained(self, account: Credentials = USER, address: str = HOST) -> RemotingConnection:
        """A connection of one that has tried too often."""
        made = self.connection(address)
        self.assertEqual(self.ask(made, *[self.wrong(account)] * AT_ONCE), [WRONG] * AT_ONCE)
        return made

    def test_so_many_are_looked_at(self) -> None:
        codes = self.ask(self.connection(), *[self.wrong() for _ in range(100)])
        self.assertEqual(codes, [WRONG] * AT_ONCE + [BUSY] * (100 - AT_ONCE))
        self.assertEqual(self.tries.refused_total, 100 - AT_ONCE)
        self.clock.advance(1)
        self.assertEqual(
            self.ask(self.connection(), *[self.wrong()] * 20), [WRONG] * RATE + [BUSY] * (20 - RATE)
        )
        self.clock.advance(60)
        self.assertFalse(self.tries.late(HOST))
        self.drained()

    def test_the_right_key_is_no_exception(self) -> None:
        # Else every answer would tell.
        self.assertEqual(self.ask(self.drained(), request(LOOKS)), [BUSY])
        self.assertEqual(self.ask(self.connection(), request(LOOKS)), [BUSY])
        self.clock.advance(0.2)
        self.assertEqual(self.ask(self.connection(), request(LOOKS)), [0])

    def test_who_has_signed_rightly_before_goes_on(self) -> None:
        honest = self.connection()
        self.assertEqual(self.ask(honest, request(LOOKS)), [0])
        tries = self.drained()
        self.assertEqual(self.ask(tries, request(LOOKS)), [BUSY])
        self.assertEqual(self.ask(honest, request(LOOKS), request(LOOKS)), [0, 0])
        # And no further: his own account is no leave to try another's.
        self.drained(ADMIN)
        self.assertEqual(self.ask(honest, self.wrong(ADMIN), request(LOOKS)), [BUSY, 0])

    def test_a_recorded_request_is_no_leave_to_try(self) -> None:
        early = self.connection()
        self.assertEqual(self.ask(early, request(LOOKS)), [0])
        self.drained()
        self.assertEqual(self.ask(self.connection(), request(LOOKS), self.wrong()), [BUSY, BUSY])
        self.assertEqual(self.ask(early, request(LOOKS), self.wrong(), request(LOOKS)), [0, WRONG, BUSY])
        self.clock.advance(60)
        self.assertEqual(self.ask(early, request(LOOKS)), [0])
        self.drained()
        self.assertEqual(self.ask(early, request(LOOKS)), [BUSY])

    def test_other_accounts_and_other_addresses_arent_touched(self) -> None:
        self.drained()
        self.assertEqual(self.ask(self.connection(OTHER), request(LOOKS)), [0])
        self.assertEqual(self.ask(self.connection(), request(LOOKS, ADMIN)), [0])
        # An address of IPv6 is its network.
        self.drained(address="2001:db8::1")
        self.assertEqual(self.ask(self.connection("2001:db8::2"), request(LOOKS)), [BUSY])

    def test_accounts_that_there_arent_count_as_one(self) -> None:
        codes = self.ask(
            self.connection(),
            *[request(LOOKS, Credentials(f"nobody{index}", "wrong-key")) for index in range(20)],
        )
        self.assertEqual(codes, [WRONG] * AT_ONCE + [BUSY] * (20 - AT_ONCE))
        self.assertEqual(self.ask(self.connection(), request(LOOKS)), [0])

    def test_what_isnt_signed_or_not_allowed_is_no_try(self) -> None:
        for made in (request(LOOKS, None), request(RequestCode.UPDATE_BROKER_CONFIG)):
            self.assertEqual(self.ask(self.connection(), *[made] * 50), [WRONG] * 50)

    def test_there_is_a_line_a_minute(self) -> None:
        tries = self.drained()
        for _ in range(3):
            self.ask(tries, self.wrong(), self.wrong())
        (line,) = self.lines
        self.assertIn("127.0.0.1 has tried more than 8 wrong signatures", str(line))
        self.assertIn(USER.access_key, str(line))

    def test_nothing_is_kept_of_closed_connections_and_of_what_is_over(self) -> None:
        honest = self.connection()
        self.ask(honest, request(LOOKS))
        for number in range(100):
            self.drained(address=f"10.1.0.{number}")
            self.clock.advance(1)
        self.assertLess(len(self.tries._until), 3)
        self.assertIn(honest, self.guard._proved)
        for connection in [*self.guard._proved]:
            self.guard._forget(connection)
        self.assertEqual(self.guard._proved, {})
