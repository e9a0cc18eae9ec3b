"""What stands before a server's processors: accounts, the place of administrators, and the audit's lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.interfaces import IReactorTime

from hatwisted.acl.accounts import Accounts
from hatwisted.acl.adminguard import AdminGuard
from hatwisted.acl.audittrail import AuditTrail, State
from hatwisted.acl.requestguard import RequestGuard
from hatwisted.remoting.guarded import guarded
from hatwisted.remoting.server import ProcessorTable
from hatwisted.wire.networks import Networks
from hatwisted.wire.remoting import RemotingCommand


class Entrance:
    """One server's.

    - changes: request code -> event, of the requests that only administrators make
    - admins: from where those are taken; None: from anywhere with accounts, from this host alone without
    - accounts: those that are let in, as they are now; None: everybody is
    - clock: of the log's throttles
    """

    def __init__(
        self,
        changes: Mapping[int, str],
        admins: Networks | None,
        accounts: Callable[[], Accounts] | None,
        clock: IReactorTime,
    ) -> None:
        self._changes = changes
        self._accounts = accounts
        self._request_guard = None if accounts is None else RequestGuard(accounts, clock)
        left_to_accounts = accounts is not None and admins is None
        self._admin_guard = None if left_to_accounts else AdminGuard(changes, admins, clock)

    @property
    def asks_for_accounts(self) -> bool:
        """Are requests signed? Then all of their fields count."""
        return self._request_guard is not None

    def protect(self, table: ProcessorTable, states: Mapping[int, State]) -> ProcessorTable:
        """The same handlers behind all of it. states: what changes are about, for the audit."""
        table = AuditTrail(self._changes, states, self._sender).follow(table)
        if self._admin_guard is not None:
            table = guarded(table, self._admin_guard.denial, self._admin_guard.codes)
        if self._request_guard is not None:
            table = guarded(table, self._request_guard.denial)
        return table

    def _sender(self, request: RemotingCommand) -> str | None:
        return None if self._accounts is None else self._accounts().signer(request)
