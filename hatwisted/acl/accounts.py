"""All accounts of a broker: who may make a request. RocketMQ's PlainPermissionManager, without its files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hatwisted.acl.account import Account
from hatwisted.acl.aclfile import AclFile
from hatwisted.acl.needs import ADMIN_CODES, Need, Rule, needs_of
from hatwisted.acl.permissions import GROUP, PUB
from hatwisted.kernel import check_signatures, signing_key
from hatwisted.wire.remoting import RemotingCommand, SignedSendCommand
from hatwisted.wire.requestheader import UNIQUE_KEY_QUERY
from hatwisted.wire.signing import ACCESS_KEY, SIGNATURE, SecretKey, signed_bytes
from hatwisted.wire.topics import TRACE_TOPIC

KNOWN_HOSTS: Final = 4096
"""Addresses of which is remembered whether they need a signature."""

KNOWN_WISHES: Final = 4096
"""Accounts, codes of sends and topics of which is remembered that the one may send to the other."""

_WITHOUT_FLAG: Final = (SIGNATURE, UNIQUE_KEY_QUERY)


class AccessDenied(Exception):
    """Why a request is refused, in RocketMQ's words."""


class NotSigned(AccessDenied):
    """By none of the accounts: somebody may be trying keys."""


def access_key_of(request: RemotingCommand) -> str | None:
    """The account that `request` names, whether it has signed or not."""
    if isinstance(request, SignedSendCommand) and request.header is not None:
        return request.header.access_key
    return request.ext.get(ACCESS_KEY)


def drop_texts(requests: Iterable[RemotingCommand]) -> None:
    """Let go of what only a check needs: a send may wait for seconds, among a hundred thousand others."""
    for request in requests:
        if isinstance(request, SignedSendCommand):
            request.encoded = request.signed = b""


class Accounts:
    """Raises ValueError if two files have one account: whose permissions it has would be left to chance.

    files: name -> content
    """

    def __init__(self, files: Mapping[str, AclFile]) -> None:
        self._accounts: dict[str, Account] = {}
        self._file_of: dict[str, str] = {}
        for name, file in files.items():
            for account in file.accounts:
                key = account.access_key
                if key in self._file_of:
                    raise ValueError(f"account {key} is in {self._file_of[key]} and in {name}")
                self._accounts[key] = account
                self._file_of[key] = name
        self._addresses = [pattern for file in files.values() for pattern in file.addresses]
        # Accounts never change: edited files make others.
        self._granted: set[tuple[str | None, int, str]] = set()
        self._signatures: dict[str | None, Callable[[bytes, str], bool]] = {
            key: account.secret_key.is_signature
            for key, account in self._accounts.items()
            if not account.white
        }
        # For many at once; none where that isn't possible.
        self._keys: dict[str, bytes] = {}
        if signing_key is not None:
            self._keys = {
                key: signing_key(account.secret_key.secret)
                for key, account in self._accounts.items()
                if not account.white
            }
        self._trusted: OrderedDict[str, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def __contains__(self, access_key: object) -> bool:
        return access_key in self._accounts

    def file_of(self, access_key: str) -> str | None:
        """The file that an account is in."""
        return self._file_of.get(access_key)

    def check(self, request: RemotingCommand, host: str) -> None:
        """Raises AccessDenied unless `request` may be made from the address `host`."""
        if not self.trusts(host):
            self.check_sender(request, host)

    def check_sender(self, request: RemotingCommand, host: str, also: Rule | None = None) -> None:
        """The same from an address that isn't trusted. A send's texts are gone once it's let in.

        - request, host: as in `check`
        - also: what a request that isn't a send takes besides
        """
        if not isinstance(request, SignedSendCommand):
            self._check_texts(request, host, also)
            return
        header = request.header
        assert header is not None
        access_key = header.access_key
        is_signature = self._signatures.get(access_key)
        covered = request.signed or header.signed_bytes(request.body)
        if is_signature is None or not is_signature(covered, header.signature):
            # Not as most are: its texts decide.
            self._check_texts(_with_texts(request), host)
        elif (access_key, request.code, header.topic) not in self._granted:
            _check_permissions(self._accounts[header.access_key or ""], request)
            if len(self._granted) >= KNOWN_WISHES:
                self._granted.clear()
            self._granted.add((access_key, request.code, header.topic))
        request.encoded = request.signed = b""

    def let_in(self, requests: Sequence[RemotingCommand], first: int) -> int:
        """The index of the first request about which there's more to ask than whether it is signed: any but a send
        of an account that has sent there before; or their number. From addresses that aren't trusted.

        - requests, first: the requests, and the index of the first to look at
        """
        signatures, granted = self._signatures, self._granted
        if check_signatures is not None:
            first = check_signatures(requests, first, self._keys, granted)
        for index in range(first, len(requests)):
            request = requests[index]
            if not isinstance(request, SignedSendCommand):
                return index
            header = request.header
            if header is None or (header.access_key, request.code, header.topic) not in granted:
                return index
            covered = request.signed or header.signed_bytes(request.body)
            if not signatures[header.access_key](covered, header.signature):
                return index
            request.encoded = request.signed = b""
        return len(requests)

    def _check_texts(self, request: RemotingCommand, host: str, also: Rule | None = None) -> None:
        account = self._sender(request, host)
        if account is not None:
            _check_permissions(account, request)
            _check_needs(account, () if also is None else also(request))

    def trusts(self, host: str) -> bool:
        """May requests come from the address `host` without a signature, whatever they say of who sends them?"""
        trusted = self._trusted.get(host)
        if trusted is None:
            trusted = any(pattern.matches(host) for pattern in self._addresses)
            self._trusted[host] = trusted
            if len(self._trusted) > KNOWN_HOSTS:
                self._trusted.popitem(last=False)
        return trusted

    def signer(self, request: RemotingCommand) -> str | None:
        """The account that has signed `request`; None if none has, as it needn't from a trusted address."""
        account = self._accounts.get(request.ext.get(ACCESS_KEY, ""))
        return account.access_key if account and _is_signed(request, account.secret_key) else None

    def _sender(self, request: RemotingCommand, host: str) -> Account | None:
        """Who has sent it; None for an account that may do anything from its address."""
        access_key = request.ext.get(ACCESS_KEY)
        if access_key is None:
            raise AccessDenied("No accessKey is configured")
        account = self._accounts.get(access_key)
        if account is None:
            raise NotSigned(f"No acl config for {access_key}")
        if account.white and account.white.matches(host):
            return None
        if not _is_signed(request, account.secret_key):
            raise NotSigned(f"Check signature failed for accessKey={access_key}")
        return account


def _with_texts(request: SignedSendCommand) -> RemotingCommand:
    try:
        return request.with_texts()
    except ValueError:
        # A number like 407.0 outside of the fields: no client writes that.
        raise AccessDenied("Check signature failed: the header's numbers can't be read") from None


def _is_signed(request: RemotingCommand, key: SecretKey) -> bool:
    ext, given = request.ext, request.ext.get(SIGNATURE, "")
    if key.is_signature(signed_bytes(ext, request.body), given):
        return True
    if UNIQUE_KEY_QUERY not in ext:
        return False
    # RocketMQ's own brokers leave this field out; its clients of 4.9.7 sign it.
    return key.is_signature(signed_bytes(ext, request.body, _WITHOUT_FLAG), given)


def _check_permissions(account: Account, request: RemotingCommand) -> None:
    if request.code in ADMIN_CODES and not account.admin:
        raise AccessDenied(
            f"Need admin permission for request code={request.code}, "
            f"but accessKey={account.access_key} is not"
        )
    _check_needs(account, needs_of(request))


def _check_needs(account: Account, needs: Iterable[Need]) -> None:
    for resource, permission in needs:
        # Every account may leave traces of its messages.
        traced = resource == TRACE_TOPIC and permission == PUB
        if not traced and not account.allows(resource, permission):
            raise AccessDenied(f"No default permission for {_described(resource)}")


def _described(resource: str) -> str:
    return f"group:{resource.removeprefix(GROUP)}" if resource.startswith(GROUP) else f"topic:{resource}"
