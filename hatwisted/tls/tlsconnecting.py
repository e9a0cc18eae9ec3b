"""Connections that are encrypted before their protocol hears of them.

An attempt to connect includes the handshake and the look at the server's certificate: whoever connects is told
what is wrong instead of losing a connection that seemed to be there, and sends nothing to a stranger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from OpenSSL import SSL
from service_identity import CertificateError as NoIdentity
from service_identity import VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import VERIFY_ADVICE, Tls
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.tls.certificates import CertificateError, PemFiles, read_material
from hatwisted.tls.contexts import ContextSource, client_context
from hatwisted.tls.tlslayer import Handshaking, TlsLayer, client_layer


class TlsFailed(Exception):
    """No encrypted connection; `str()` says why."""


@implementer(IConnecting)
class TlsConnecting:
    """Encrypts what another IConnecting connects.

    - connecting: makes the plain connections
    - clock: ends handshakes that take too long
    - context: what connections are encrypted with
    - check_host: must a server's certificate name the host that was asked for?
    """

    def __init__(
        self,
        connecting: IConnecting,
        clock: IReactorTime,
        context: ContextSource,
        *,
        check_host: bool = False,
    ) -> None:
        self._connecting = connecting
        self._clock = clock
        self._context = context
        self._check_host = check_host

    def endpoint(self, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
        """See IConnecting. timeout: of the connection, then of the handshake."""
        return _TlsEndpoint(self._connecting.endpoint(host, port, timeout), self._attempt(host, timeout))

    def _attempt(self, host: str, timeout: float) -> Callable[[IProtocolFactory], _Attempt]:
        address = isIPAddress(host) or isIPv6Address(host)
        check = _host_check(host, verify_ip_address if address else verify_hostname)
        layer = partial(client_layer, self._context, self._clock, None if address else host)
        later = partial(self._clock.callLater, timeout)
        return lambda factory: _Attempt(factory, layer, later, check if self._check_host else None)


def encrypted(connecting: IConnecting, clock: IReactorTime, tls: Tls) -> TlsConnecting:
    """The connections of a program that says how by `tls`. Raises BadSetting.

    - connecting: makes the plain connections
    - clock: the reactor's
    - tls: the program's choice
    """
    files = PemFiles(
        certificate=tls.certificate,
        key=tls.key or tls.certificate,
        key_password=tls.key_password,
        trust=tls.trust_file,
    )
    try:
        material = read_material(files, lambda path: Path(path).read_bytes())
        context = client_context(material.identity, material.trust, verify=tls.verify != "none")
    except CertificateError as error:
        raise BadSetting(str(error)) from None
    return TlsConnecting(connecting, clock, lambda: context, check_host=tls.verify == "full")


HostCheck = Callable[[SSL.Connection], object]


def _host_check(host: str, verify: Callable[[SSL.Connection, str], object]) -> HostCheck:
    def check(connection: SSL.Connection) -> None:
        try:
            verify(connection, host)
        except (VerificationError, NoIdentity, ValueError):  # the last of what can't be a host's name
            raise TlsFailed(
                f"its certificate isn't accepted (it doesn't name {host}): {VERIFY_ADVICE}"
            ) from None

    return check


@implementer(IStreamClientEndpoint)
class _TlsEndpoint:
    def __init__(self, plain: IStreamClientEndpoint, attempt: Callable[[IProtocolFactory], _Attempt]) -> None:
        self._plain = plain
        self._attempt = attempt

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint. Fails with TlsFailed as well."""
        return self._attempt(protocolFactory).begin(self._plain)


class _Attempt(Factory):
    """One connection, from dialling to the end of the handshake."""

    noisy = False

    def __init__(
        self,
        factory: IProtocolFactory,
        layer: Callable[[Handshaking], TlsLayer],
        later: Callable[[Callable[[], object]], IDelayedCall],
        check: HostCheck | None,
    ) -> None:
        self._factory = factory
        self._make_layer = layer
        self._later = later
        self._check = check
        self._outcome: Deferred[IProtocol] = Deferred(lambda _: self._call_off())
        self._dialling: Deferred[IProtocol] | None = None
        self._address: IAddress | None = None
        self._layer: TlsLayer | None = None
        self._timer: IDelayedCall | None = None

    def begin(self, plain: IStreamClientEndpoint) -> Deferred[IProtocol]:
        """Dial; the encrypted connection's protocol."""
        self._dialling = plain.connect(self)
        self._dialling.addErrback(self._end)
        return self._outcome

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        """Twisted's: the plain connection is there."""
        self._address = addr
        self._handshaking = Handshaking(self._completed, self._ended)
        self._layer = self._make_layer(self._handshaking)
        self._timer = self._later(self._time_is_over)
        return self._layer

    def _completed(self) -> IProtocol | None:
        assert self._layer is not None
        try:
            if self._check is not None:
                self._check(self._layer.getHandle())
        except TlsFailed as error:
            self._end(Failure(error))
            return None
        protocol = self._factory.buildProtocol(cast(IAddress, self._address))
        if protocol is None:
            self._end(Failure(TlsFailed("nobody wants the connection")))
            return None
        self._stop_timer()
        protocol.makeConnection(self._layer)
        self._outcome.callback(protocol)
        return protocol

    def _ended(self, reason: str, failure: Failure) -> None:
        refused = self._handshaking.problem is not None
        self._end(Failure(TlsFailed(f"{reason}: {VERIFY_ADVICE}" if refused else f"no TLS there: {reason}")))

    def _time_is_over(self) -> None:
        self._end(Failure(TlsFailed("no TLS there: the handshake takes too long")))

    def _call_off(self) -> None:
        if self._layer is None:
            assert self._dialling is not None
            self._dialling.cancel()
        else:
            self._end(Failure(CancelledError()))

    def _end(self, failure: Failure) -> None:
        self._stop_timer()
        if self._layer is not None and self._layer.connected:
            self._layer.abortConnection()
        if not self._outcome.called:
            self._outcome.errback(failure)

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
