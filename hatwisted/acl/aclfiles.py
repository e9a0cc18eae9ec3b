"""The files with a broker's accounts: read at the start, looked at again and again, changed by administrators.

As in RocketMQ these are `conf/plain_acl.yml` and all `.yml` and `.yaml` below `conf/acl`, and an edited file holds
within WATCH_INTERVAL. Files that can't be used change nothing: the accounts of before stay, and the log says why;
at the start there are none of before, and the broker doesn't start. RocketMQ goes on with what it understood of a
broken file.

Reading and writing happen in a worker, one after the other. A change is on the disk before it holds. What an
editor has changed has a line of the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from os.path import dirname, join
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.acl.account import ACCESS_KEY, shown_entry
from hatwisted.acl.accounts import Accounts
from hatwisted.acl.aclfile import (
    ACCOUNTS,
    ADDRESSES,
    AclFile,
    encoded,
    parse_acl_file,
    with_account,
    with_addresses,
    without_account,
)
from hatwisted.acl.audittrail import audit_edited
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.registration import DataVersion

WATCH_INTERVAL: Final = 5.0
"""Seconds between two looks at the files (4.9.7: 5 s)."""
MAX_FILES: Final = 1000
"""Files with accounts."""
MAX_DEPTH: Final = 4
"""Folders within folders below `conf/acl`."""

SUFFIXES: Final = (".yml", ".yaml")
TOOLS_FILE: Final = "tools.yml"
"""The broker's own account, with which it speaks to others: not one of those it lets in."""


class AclError(ValueError):
    """The accounts can't be read, or can't be what they are asked to be; `str()` names the file."""


class _Read(NamedTuple):
    """What lay on the disk. stamps: path -> what tells whether to look again."""

    stamps: Mapping[str, Hashable]
    files: Mapping[str, AclFile]
    accounts: Accounts


class _Found(NamedTuple):
    """What lies there now. edited: what editors have changed, before and after; None: nothing that counts."""

    read: _Read
    edited: tuple[Mapping[str, object], Mapping[str, object]] | None


@dataclass(frozen=True, kw_only=True)
class AclPlaces:
    """Where the accounts are.

    - main: the file that new accounts are written to; it must be there
    - folder: of further files; needn't be there
    """

    main: str
    folder: str


class AclFiles:
    """The accounts of a broker.

    - places: where they are
    - fs: the disk
    - worker: reads and writes them
    - clock: of the looks, and of versions
    """

    _log = Logger()

    def __init__(self, places: AclPlaces, fs: IFileSystem, worker: IWorker, clock: IReactorTime) -> None:
        self._places = places
        self._fs = fs
        self._worker = worker
        self._clock = clock
        self._now = _Read({}, {}, Accounts({}))
        self._last_error = ""
        self._turn = DeferredLock()
        self._watch = PeriodicCall(clock, "looking at the accounts' files", self._look)

    # ---- as they are

    @property
    def accounts(self) -> Accounts:
        """Who is let in at present."""
        return self._now.accounts

    @property
    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """Path -> content of each file."""
        return {path: file.document for path, file in self._now.files.items()}

    @property
    def versions(self) -> Mapping[str, DataVersion]:
        """Path -> version of each file."""
        return {path: file.version for path, file in self._now.files.items()}

    @property
    def main_version(self) -> DataVersion:
        """Of the file that new accounts are written to."""
        return self._now.files[self._places.main].version

    # ---- life

    def load(self) -> None:
        """Read them; blocks. Raises AclError."""
        stamps = self._stamps()
        if self._places.main not in stamps:
            raise AclError(
                f"{self._places.main} doesn't exist: create it, with an account for an administrator"
            )
        self._now = self._read(stamps)
        self._log.info(
            "{accounts} accounts in {files} files", accounts=len(self.accounts), files=len(self._now.files)
        )

    def start(self) -> None:
        """Look at the files from time to time."""
        self._watch.start(WATCH_INTERVAL)

    def stop(self) -> None:
        """Look at them no more."""
        self._watch.stop()

    # ---- changes by administrators

    def put_account(self, change: Mapping[str, Any]) -> Deferred[None]:
        """Make or change an account; fires when that is on the disk and holds, fails with AclError.

        change: the entry's fields; those that are None stay as they are.
        """

        def edit(now: _Read) -> tuple[str, dict[str, Any]]:
            path = now.accounts.file_of(change[ACCESS_KEY]) or self._places.main
            return path, with_account(now.files[path].document, change)

        return self._change(edit)

    def delete_account(self, access_key: str) -> Deferred[None]:
        """Delete an account. As `put_account`."""

        def edit(now: _Read) -> tuple[str, dict[str, Any]]:
            path = now.accounts.file_of(access_key)
            if path is None:
                raise AclError(f"there is no account {access_key}")
            return path, without_account(now.files[path].document, access_key)

        return self._change(edit)

    def put_addresses(self, addresses: list[str], path: str) -> Deferred[None]:
        """Set the addresses of a file that need no signature. As `put_account`. path: "" for the main file."""

        def edit(now: _Read) -> tuple[str, dict[str, Any]]:
            known = path or self._places.main
            if known not in now.files:
                raise AclError(f"{path} is not one of the files with accounts: {', '.join(now.files)}")
            return known, with_addresses(now.files[known].document, addresses)

        return self._change(edit)

    def _change(self, edit: Callable[[_Read], tuple[str, dict[str, Any]]]) -> Deferred[None]:
        now_ms = int(self._clock.seconds() * 1000)
        return self._turn.run(lambda: maybeDeferred(self._edit, edit, now_ms).addCallback(self._take))

    def _edit(self, edit: Callable[[_Read], tuple[str, dict[str, Any]]], now_ms: int) -> Deferred[_Found]:
        def blocking(known: _Read) -> _Found:
            now = self._read(self._stamps())
            try:
                path, document = edit(now)
            except ValueError as error:  # an AclError is one, too
                raise AclError(str(error)) from None
            data = encoded(document, now.files[path].version.following(now_ms))
            replace_file(self._fs, self._fs.real_path(path), data)
            return _Found(self._read(self._stamps()), _edited(known, now))

        edited: Deferred[_Found] = self._worker.run(blocking, self._now)  # type: ignore[assignment]
        return edited

    # ---- changes by editors

    def _look(self) -> Deferred[None]:
        return self._turn.run(self._look_now)

    def _look_now(self) -> Deferred[None]:
        def blocking(known: _Read) -> _Found | None:
            stamps = self._stamps()
            if stamps == known.stamps:
                return None
            read = self._read(stamps)
            return _Found(read, _edited(known, read))

        looked = maybeDeferred(self._worker.run, blocking, self._now)
        return looked.addCallbacks(self._found, self._not_read)

    def _found(self, found: _Found | None) -> None:
        if found is not None:
            self._take(found)
            self._log.info(
                "accounts read again: {accounts}", event="accounts.reread", accounts=len(self.accounts)
            )

    def _not_read(self, failure: Failure) -> None:
        failure.trap(AclError, OSError)
        error = failure.getErrorMessage()
        if error != self._last_error:
            self._last_error = error
            self._log.error(
                "{error}; the accounts stay as they were until that is fixed",
                event="accounts.refused",
                error=error,
            )

    def _take(self, found: _Found) -> None:
        if found.edited is not None:
            audit_edited("accounts.reread", *found.edited)
        self._now = found.read
        self._last_error = ""

    # ---- in the worker

    def _stamps(self) -> dict[str, Hashable]:
        main, *paths = account_paths(self._places, self._fs)
        if len(paths) >= MAX_FILES:
            raise AclError(f"{self._places.folder} holds more than {MAX_FILES} files")
        stamps: dict[str, Hashable] = {}
        for path in [main, *paths]:
            try:
                stamps[path] = self._fs.stamp(path)
            except OSError:
                continue  # gone since it was listed, or never there
        return stamps

    def _read(self, stamps: Mapping[str, Hashable]) -> _Read:
        if self._places.main not in stamps:
            raise AclError(f"{self._places.main} is gone")
        files = {}
        for path in stamps:
            try:
                files[path] = parse_acl_file(self._fs.read(path))
            except OSError as error:
                raise AclError(f"{path} can't be read: {error.strerror or error}") from None
            except ValueError as error:
                raise AclError(f"{path}: {error}") from None
        try:
            return _Read(stamps, files, Accounts(files))
        except ValueError as error:
            raise AclError(f"{dirname(self._places.main)}: {error}") from None


def account_paths(places: AclPlaces, fs: IFileSystem) -> list[str]:
    """The files with accounts that there may be, the main one first.

    - places: where they are
    - fs: the disk
    """
    return [places.main, *(path for path in _below(fs, places.folder, MAX_DEPTH) if path != places.main)]


def _below(fs: IFileSystem, folder: str, depth: int) -> Iterator[str]:
    try:
        names = fs.listdir(folder)
    except OSError:
        return  # not a folder
    for name in names:
        path = join(folder, name)
        if name.endswith(SUFFIXES):
            if name != TOOLS_FILE:
                yield path
        elif depth > 1:
            yield from _below(fs, path, depth - 1)


def _edited(known: _Read, now: _Read) -> tuple[Mapping[str, object], Mapping[str, object]] | None:
    """Accounts and lists of addresses that are other ones, as they were and as they are; without secrets."""
    accounts, addresses = (_other(*map(named, (known, now))) for named in (_entries, _addresses))
    if not any((*accounts, *addresses)):
        return None
    before, after = (
        {
            ACCOUNTS: {key: shown_entry(entry) for key, entry in entries.items()},
            ADDRESSES: lists,
        }
        for entries, lists in zip(accounts, addresses, strict=True)
    )
    return before, after


def _other(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the one has otherwise than the other."""
    return (
        {name: value for name, value in before.items() if value != after.get(name)},
        {name: value for name, value in after.items() if value != before.get(name)},
    )


def _entries(read: _Read) -> dict[str, Mapping[str, Any]]:
    files = read.files.values()
    return {str(entry[ACCESS_KEY]): entry for file in files for entry in file.document.get(ACCOUNTS) or []}


def _addresses(read: _Read) -> dict[str, Any]:
    """Path -> from where no request needs a signature."""
    return {path: file.document.get(ADDRESSES) or [] for path, file in read.files.items()}
