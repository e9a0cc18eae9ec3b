"""What stands before a server's processors: rates, accounts, the place of administrators, and the audit's
lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from twisted.internet.interfaces import IReactorTime

from hatwisted.acl.accounts import Accounts
from hatwisted.acl.adminguard import AdminGuard
from hatwisted.acl.audittrail import AuditTrail, State
from hatwisted.acl.changes import BROKERS_WORD
from hatwisted.acl.failedlogins import FailedLogins
from hatwisted.acl.needs import Rule
from hatwisted.acl.rateguard import RateGuard, Rates, by_account, by_address
from hatwisted.acl.requestguard import RequestGuard
from hatwisted.remoting.guarded import guarded
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.wire.networks import Networks
from hatwisted.wire.remoting import RemotingCommand

UNLIMITED: Final = Rates()


@dataclass(frozen=True, kw_only=True)
class EntranceOptions:
    """What an operator decides.

    - admins: from where changes are taken; None: from anywhere with accounts, from this host alone without
    - of_address, of_account: rates of one
    - failed_logins: a second, of one address for one account; 0: any number
    """

    admins: Networks | None = None
    of_address: Rates = UNLIMITED
    of_account: Rates = UNLIMITED
    failed_logins: int = 0


class Entrance:
    """One server's.

    - changes: request code -> event, of the requests that only administrators make
    - accounts: those that are let in, as they are now; None: everybody is
    - clock: of rates and of the log's throttles
    - options: what an operator has decided
    - also: as in RequestGuard
    """

    def __init__(
        self,
        changes: Mapping[int, str],
        accounts: Callable[[], Accounts] | None,
        clock: IReactorTime,
        options: EntranceOptions,
        also: Mapping[int, Rule] | None = None,
    ) -> None:
        self._changes = changes
        self._accounts = accounts
        rate = options.failed_logins
        self.failed_logins = FailedLogins(rate, clock) if rate else None
        """Who has tried keys and passwords in vain; None: everybody may."""
        self._request_guard = (
            None if accounts is None else RequestGuard(accounts, clock, also, self.failed_logins)
        )
        left_to_accounts = accounts is not None and options.admins is None
        self._admin_guard = None if left_to_accounts else AdminGuard(changes, options.admins, clock)
        of_address, of_account = options.of_address, options.of_account
        self._address_rates = RateGuard(of_address, by_address, clock) if of_address else None
        self._account_rates = (
            RateGuard(of_account, by_account(accounts), clock) if accounts and of_account else None
        )

    @property
    def asks_for_accounts(self) -> bool:
        """Are requests signed?"""
        return self._request_guard is not None

    @property
    def refused(self) -> dict[str, int]:
        """Why requests aren't served -> how many weren't, of the reasons that there are at this server."""
        guards = {
            "account": self._request_guard,
            "administration": self._admin_guard,
            "address_rate": self._address_rates,
            "account_rate": self._account_rates,
        }
        refused = {reason: guard.denied_total for reason, guard in guards.items() if guard is not None}
        if self.failed_logins is not None:
            refused["failed_logins"] = self.failed_logins.refused_total
        return refused

    def protect(self, table: ProcessorTable, states: Mapping[int, State]) -> ProcessorTable:
        """The same handlers behind all of it. states: what changes are about, for the audit."""
        table = AuditTrail(self._changes, BROKERS_WORD, states, self._sender).follow(table)
        if self._admin_guard is not None:
            table = guarded(table, self._admin_guard, self._admin_guard.codes)
        # From the inside out: an account is whose it says to be, and a signature isn't checked for nothing.
        for guard in (self._account_rates, self._request_guard, self._address_rates):
            if guard is not None:
                # What nobody answers costs an address as much as what is answered.
                table = guarded(table, guard, unserved=guard is self._address_rates)
        return table

    def _sender(self, request: RemotingCommand) -> str | None:
        return None if self._accounts is None else self._accounts().signer(request)
