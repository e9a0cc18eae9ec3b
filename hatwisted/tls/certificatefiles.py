"""A server's certificate files: read at the start, and again when they change.

Whoever renews certificates replaces files; nobody restarts a broker for it. New connections get what the files
hold within WATCH_INTERVAL, open ones go on with what they had. Files that can't be used change nothing: those of
before hold, and the log says why. Files are renewed one after the other: a key that doesn't belong to the
certificate yet is such a case, and is over with the next look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.tls.certificates import CertificateError, Material, PemFiles, read_material
from hatwisted.tls.contexts import client_context

WATCH_INTERVAL: Final = 5.0
"""Seconds between two looks at the files."""
EXPIRY_WARNING: Final = 30
"""Days before the end of a certificate from which on the log warns of it."""
WARN_INTERVAL: Final = 86400.0
"""Seconds between two such warnings."""
DAY: Final = 86400

T = TypeVar("T")
Stamps = dict[str, Hashable]


class _Read(NamedTuple):
    """What lay on the disk. stamps: path -> what tells whether to look again."""

    stamps: Stamps
    material: Material


class CertificateFiles:
    """Certificates and key of one server.

    - files: where they are
    - fs: the disk
    - worker: reads them while the server runs
    - clock: of the looks, and by which certificates expire
    """

    _log = Logger()

    def __init__(self, files: PemFiles, fs: IFileSystem, worker: IWorker, clock: IReactorTime) -> None:
        self._files = files
        self._fs = fs
        self._worker = worker
        self._clock = clock
        self._now = _Read({}, Material(None, None))
        self._users = 0
        self._last_error = ""
        self._warned_at = -math.inf
        self._watch = PeriodicCall(clock, "looking at the certificates' files", self._look)

    @property
    def material(self) -> Material:
        """What holds at present."""
        return self._now.material

    @property
    def path(self) -> str:
        """Of the certificate that is shown; empty without one."""
        return self._files.certificate or ""

    @property
    def expires(self) -> float:
        """Seconds since the epoch until which the certificate that is shown is valid; infinite without one."""
        identity = self._now.material.identity
        return math.inf if identity is None else identity.expires

    def derived(self, make: Callable[[Material], T]) -> Callable[[], T]:
        """What `make` makes of the material, made again when that has changed, for each who asks then."""
        made: list[tuple[Material, T]] = []

        def present() -> T:
            if not made or made[0][0] is not self._now.material:
                made[:] = [(self._now.material, make(self._now.material))]
            return made[0][1]

        return present

    def load(self) -> None:
        """Read them; blocks. Raises CertificateError."""
        self._take(self._read())

    def start(self) -> None:
        """Somebody uses them: look at them from time to time."""
        self._users += 1
        if self._users == 1:
            self._watch.start(WATCH_INTERVAL)

    def stop(self) -> None:
        """One user less."""
        self._users -= 1
        if self._users == 0:
            self._watch.stop()

    def _look(self) -> Deferred[None]:
        def blocking(known: Stamps) -> _Read | None:
            return None if self._stamps() == known else self._read()

        looked = maybeDeferred(self._worker.run, blocking, self._now.stamps)
        return looked.addCallbacks(self._found, self._not_read)

    def _found(self, read: _Read | None) -> None:
        self._last_error = ""
        if read is not None:
            self._log.info(
                "certificates read again: {paths}",
                event="certificates.reread",
                paths=", ".join(self._files.paths),
            )
            self._take(read)
        self._warn()

    def _not_read(self, failure: Failure) -> None:
        failure.trap(CertificateError, OSError)
        error = failure.getErrorMessage()
        if error != self._last_error:
            self._last_error = error
            self._log.error(
                "{error}; the certificates stay as they were until that is fixed",
                event="certificates.refused",
                error=error,
            )
        self._warn()

    def _take(self, read: _Read) -> None:
        self._now = read
        self._warned_at = -math.inf
        self._warn()

    def _warn(self) -> None:
        now = self._clock.seconds()
        left = self.expires - now
        if left >= EXPIRY_WARNING * DAY or now - self._warned_at < WARN_INTERVAL:
            return
        self._warned_at = now
        path = self._files.certificate
        if left > 0:
            self._log.warn(
                "{path}: the certificate expires in {days:.0f} days",
                event="certificates.expiring",
                path=path,
                days=left / DAY,
            )
        else:
            self._log.error("{path}: the certificate has expired; clients that check it are gone", path=path)

    def _stamps(self) -> Stamps:
        return {path: self._fs.stamp(path) for path in self._files.paths}

    def _read(self) -> _Read:
        # The stamps first: what is written meanwhile differs from them at the next look.
        try:
            stamps = self._stamps()
        except OSError as error:
            raise CertificateError(f"{error.filename}: can't be read: {error.strerror or error}") from None
        material = read_material(self._files, self._fs.read)
        try:
            client_context(material.identity, None, verify=False)
        except CertificateError as error:
            raise CertificateError(f"{self._files.certificate}: {error}") from None
        return _Read(stamps, material)
