"""What a server's TLS properties mean: how its ports and its own connections are encrypted."""

from __future__ import annotations

from functools import cache
from typing import Final

from OpenSSL import SSL
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.assembly.parts import Parts
from hatwisted.config.errors import SettingError
from hatwisted.config.tlskeys import TlsClientKeys, TlsKeys, TlsMode
from hatwisted.remoting.interfaces import IConnecting, Listen
from hatwisted.store.interfaces import IWorker
from hatwisted.tls.certificatefiles import CertificateFiles
from hatwisted.tls.certificates import CertificateError, Material, PemFiles, self_signed
from hatwisted.tls.contexts import ClientAuth, ContextSource, client_context, server_context
from hatwisted.tls.handshakes import Handshakes
from hatwisted.tls.tlsconnecting import TlsConnecting
from hatwisted.tls.tlsport import TlsServerFactory, WatchingFactory

SELF_SIGNED_NAME: Final = "hatwisted"
"""Whom a self-signed certificate names."""


class Encryption:
    """A server's. Raises SettingError if a file can't be used.

    - config: its TLS properties
    - parts: its surroundings
    - worker: reads certificates again while it runs
    """

    def __init__(self, config: TlsKeys, parts: Parts, worker: IWorker) -> None:
        self._config = config
        self._parts = parts
        self._worker = worker
        self._watched: list[CertificateFiles] = []
        self.handshakes: list[Handshakes] = []
        """Of each port that was opened."""
        self._context = None if config.tls_server_mode is TlsMode.DISABLED else self._server_context()
        """Of ports; made later if one of figures is the first that speaks TLS."""

    def expiries(self) -> dict[str, float]:
        """Path of each certificate that is shown -> seconds since the epoch at which it expires."""
        return {files.path: files.expires for files in self._watched}

    def port(self, listen: Listen) -> Listen:
        """What opens a port, with TLS before its connections as `tls.server.mode` says. While it's open,
        certificates are looked at: those of the server's own calls also where its ports speak no TLS."""
        mode = self._config.tls_server_mode
        if mode is TlsMode.DISABLED:
            return lambda factory: listen(WatchingFactory(factory, self._watched))
        return self.page_port(listen, mode)

    def page_port(self, listen: Listen, mode: TlsMode | None) -> Listen:
        """What opens a port for browsers and scrapers, with the certificate of the others.

        - listen: opens it, plain
        - mode: its own; None: both kinds are served, unless the others speak no TLS

        Raises SettingError if it needs a certificate that can't be used.
        """
        if mode is None:
            others = self._config.tls_server_mode is TlsMode.DISABLED
            mode = TlsMode.DISABLED if others else TlsMode.PERMISSIVE
        if mode is TlsMode.DISABLED:
            return listen
        context = self._context = self._context or self._server_context()

        def listen_with_tls(factory: IProtocolFactory) -> IListeningPort:
            plain = mode is TlsMode.PERMISSIVE
            port = TlsServerFactory(factory, context, self._parts.clock, plain=plain, watched=self._watched)
            self.handshakes.append(port.handshakes)
            return listen(port)

        return listen_with_tls

    def connecting(self, config: TlsClientKeys) -> IConnecting:
        """Its own connections to other servers. config: its properties for these. Raises SettingError."""
        plain = self._parts.connecting
        # Whose ports speak TLS alone belongs to a cluster where all do (RocketMQ's default, too).
        if not (config.tls_enable or config.use_tls or config.tls_server_mode is TlsMode.ENFORCING):
            return plain
        verify = config.tls_client_auth_server and not config.tls_test_mode_enable
        files = self._files(
            PemFiles(
                certificate=config.tls_client_cert_path,
                key=config.tls_client_key_path,
                key_password=config.tls_client_key_password,
                trust=config.tls_client_trust_cert_path if verify else None,
            ),
            "tls.client.certPath" if config.tls_client_cert_path else "tls.client.trustCertPath",
        )
        context = files.derived(
            lambda material: client_context(material.identity, material.trust, verify=verify)
        )
        return TlsConnecting(plain, self._parts.clock, context)

    def _server_context(self) -> ContextSource:
        config = self._config
        if config.tls_self_signed:
            return cache(self._self_signed)
        for key, path in (
            ("tls.server.certPath", config.tls_server_cert_path),
            ("tls.server.keyPath", config.tls_server_key_path),
        ):
            if path is None:
                raise SettingError(key, "isn't set; set certificate and key, or tls.server.mode=disabled")
        if config.tls_server_auth_client and config.tls_server_trust_cert_path is None:
            raise SettingError("tls.server.authClient", "set tls.server.trustCertPath as well")
        files = self._files(
            PemFiles(
                certificate=config.tls_server_cert_path,
                key=config.tls_server_key_path,
                key_password=config.tls_server_key_password,
                trust=config.tls_server_trust_cert_path if config.tls_server_auth_client else None,
            ),
            "tls.server.certPath",
        )
        client_auth = ClientAuth(config.tls_server_need_client_auth.value)

        def context(material: Material) -> SSL.Context:
            assert material.identity is not None
            return server_context(material.identity, material.trust, client_auth)

        return files.derived(context)

    def _self_signed(self) -> SSL.Context:
        identity = self_signed(SELF_SIGNED_NAME, self._parts.clock.seconds())
        return server_context(identity, None, ClientAuth.OPTIONAL)

    def _files(self, paths: PemFiles, key: str) -> CertificateFiles:
        files = load_certificates(paths, key, self._parts, self._worker)
        self._watched.append(files)
        return files


def load_certificates(paths: PemFiles, key: str, parts: Parts, worker: IWorker) -> CertificateFiles:
    """The files, read. Raises SettingError.

    - paths: where they are
    - key: of the configuration, for errors
    - parts: the node's surroundings
    - worker: reads them again while it runs
    """
    files = CertificateFiles(paths, parts.file_system, worker, parts.clock)
    try:
        files.load()
    except CertificateError as error:
        raise SettingError(key, str(error)) from None
    return files
