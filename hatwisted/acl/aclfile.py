"""One ACL file of RocketMQ's, `plain_acl.yml` and the like: from its bytes to accounts, and changed as a document.

What isn't known here stays in the document, so that a file changed by us still has it; comments are lost, as with
RocketMQ. A change is checked by reading the document that came of it: nothing is written that the next start
would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hatwisted.acl.account import ACCESS_KEY, FIELDS, Account, parse_account
from hatwisted.acl.addresspattern import AddressPattern
from hatwisted.wire.registration import DataVersion

MAX_SIZE: Final = 4 << 20
"""Bytes of one file."""
MAX_ACCOUNTS: Final = 10_000
"""Accounts of one file."""
MAX_NESTING: Final = 32
"""Lists and maps within each other; what is known here has four levels."""

ACCOUNTS: Final = "accounts"
ADDRESSES: Final = "globalWhiteRemoteAddresses"
VERSION: Final = "dataVersion"


# PyYAML is imported where a file is read: a server without accounts starts 9 to 18 ms sooner for it.


class AclFile(NamedTuple):
    """What a file says.

    - accounts: in its order
    - addresses: from where no request needs a signature
    - version: counts the changes that were made through a broker
    - document: all of it, as YAML has it
    """

    accounts: tuple[Account, ...]
    addresses: tuple[AddressPattern, ...]
    version: DataVersion
    document: Mapping[str, Any]


def parse_acl_file(data: bytes) -> AclFile:
    """Raises ValueError: not YAML, or an entry that makes no sense."""
    if len(data) > MAX_SIZE:
        raise ValueError(f"{len(data)} bytes, and an ACL file has at most {MAX_SIZE}")
    import yaml

    try:
        _check_nesting(data)
        document = yaml.load(data, Loader=_quickest("SafeLoader"))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"not YAML: {_place(error)}") from None
    return _read({} if document is None else document)


def _quickest(name: str) -> Any:
    """PyYAML's class in C, where it was built with it: 10 times faster, the same documents."""
    import yaml

    return getattr(yaml, f"C{name}", None) or getattr(yaml, name)


def _check_nesting(data: bytes) -> None:
    """The C parser builds what is nested by recursion, without a bound: some KiB of brackets would end the
    process. Raises ValueError or YAMLError."""
    import yaml

    depth = 0
    for event in yaml.parse(data, Loader=_quickest("SafeLoader")):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                raise ValueError(f"not YAML that makes sense: nested deeper than {MAX_NESTING} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def with_account(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The document with an account made or changed. Raises ValueError.

    - document: the file's
    - change: the entry's fields; None: as it was, for a new account not there
    """
    entries = list(_entries(document))
    given = {name: change[name] for name in FIELDS if change.get(name) is not None}
    for index, entry in enumerate(entries):
        if str(entry.get(ACCESS_KEY)) == change[ACCESS_KEY]:
            entries[index] = {**entry, **given}
            break
    else:
        entries.append(given)
    return _checked({**document, ACCOUNTS: entries})


def without_account(document: Mapping[str, Any], access_key: str) -> dict[str, Any]:
    """The document without an account."""
    entries = [entry for entry in _entries(document) if str(entry.get(ACCESS_KEY)) != access_key]
    return _checked({**document, ACCOUNTS: entries})


def with_addresses(document: Mapping[str, Any], addresses: Sequence[str]) -> dict[str, Any]:
    """The document with other addresses that need no signature. Raises ValueError."""
    return _checked({**document, ADDRESSES: list(addresses)})


def encoded(document: Mapping[str, Any], version: DataVersion) -> bytes:
    """The file. version: what it is to say of itself."""
    dated = {**document, VERSION: [{"counter": version.counter, "timestamp": version.timestamp}]}
    import yaml

    data: bytes = yaml.dump(
        dated,
        Dumper=_quickest("SafeDumper"),
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        encoding="utf-8",
    )
    return data


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    _read(document)
    return document


def _read(document: Any) -> AclFile:
    if not isinstance(document, dict):
        raise ValueError(f"must have {ADDRESSES} and {ACCOUNTS} as its keys")
    accounts: dict[str, Account] = {}
    for entry in _entries(document):
        account = parse_account(entry)
        if account.access_key in accounts:
            raise ValueError(f"account {account.access_key} is listed twice")
        accounts[account.access_key] = account
    return AclFile(tuple(accounts.values()), _addresses(document), _version(document), document)


def _entries(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    entries = document.get(ACCOUNTS) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{ACCOUNTS} must be a list of accounts")
    if len(entries) > MAX_ACCOUNTS:
        raise ValueError(f"{len(entries)} accounts, and a file has at most {MAX_ACCOUNTS}")
    return entries


def _addresses(document: Mapping[str, Any]) -> tuple[AddressPattern, ...]:
    patterns = document.get(ADDRESSES) or []
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise ValueError(f"{ADDRESSES} must be a list of addresses")
    return tuple(map(AddressPattern, patterns))


def _version(document: Mapping[str, Any]) -> DataVersion:
    """An unreadable one counts as none: it says nothing of who may do what."""
    match document.get(VERSION):
        case [{"counter": int(counter), "timestamp": int(timestamp)}, *_]:
            return DataVersion(counter=counter, timestamp=timestamp)
    return DataVersion()


def _place(error: Exception) -> str:
    """Where a YAML file goes wrong; PyYAML's own text quotes the line, which may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "too deeply nested"
    return problem if mark is None else f"{problem} in line {mark.line + 1}, column {mark.column + 1}"
