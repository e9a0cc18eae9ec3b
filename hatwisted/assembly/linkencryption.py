"""What a broker's `haTls` properties mean: the HA link of two brokers of ours, each with a certificate.

Both ends show one, and both look at the other's: whose authority isn't in `haTlsTrustCertPath`, or whose name
isn't in `haTlsPeers`, is no slave and no master. Any broker may be either, so both ends have the same keys.

Not a mode beside plain links, as RocketMQ's `permissive` is for clients: a stranger would choose the plain one.
"""

from __future__ import annotations

import re

from OpenSSL import SSL
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.assembly.encryption import load_certificates
from hatwisted.assembly.parts import Parts
from hatwisted.config.errors import SettingError
from hatwisted.config.tlskeys import LinkTlsKeys
from hatwisted.remoting.interfaces import IConnecting, Listen
from hatwisted.store.interfaces import IWorker
from hatwisted.tls.certificates import Material, PemFiles
from hatwisted.tls.contexts import ClientAuth, client_context, server_context
from hatwisted.tls.handshakes import Handshakes
from hatwisted.tls.tlsconnecting import TlsConnecting
from hatwisted.tls.tlsport import TlsServerFactory


class LinkEncryption:
    """A broker's. Raises SettingError if a file isn't given, or can't be used.

    - config: its TLS properties
    - parts: its surroundings
    - worker: reads certificates again while it runs
    """

    def __init__(self, config: LinkTlsKeys, parts: Parts, worker: IWorker) -> None:
        self.connecting: IConnecting = parts.connecting
        """Makes a slave's link."""
        self.handshakes: list[Handshakes] = []
        """As those of Encryption."""
        self._clock = parts.clock
        self._files = None
        if not config.ha_tls_enable:
            return
        for key, path in (
            ("haTlsCertPath", config.ha_tls_cert_path),
            ("haTlsKeyPath", config.ha_tls_key_path),
            ("haTlsTrustCertPath", config.ha_tls_trust_cert_path),
        ):
            if path is None:
                raise SettingError(
                    key, "isn't set; haTlsEnable needs certificate, key and trusted authorities"
                )
        files = PemFiles(
            certificate=config.ha_tls_cert_path,
            key=config.ha_tls_key_path,
            key_password=config.ha_tls_key_password,
            trust=config.ha_tls_trust_cert_path,
        )
        self._files = load_certificates(files, "haTlsCertPath", parts, worker)
        self._peers = [name for name in re.split(r"[;,\s]+", config.ha_tls_peers or "") if name]
        self._accepting = self._files.derived(self._server)
        self.connecting = TlsConnecting(parts.connecting, parts.clock, self._files.derived(self._client))

    def expiries(self) -> dict[str, float]:
        """As those of Encryption."""
        return {} if self._files is None else {self._files.path: self._files.expires}

    def port(self, listen: Listen) -> Listen:
        """What opens the HA port."""
        files = self._files
        if files is None:
            return listen

        def listen_with_tls(factory: IProtocolFactory) -> IListeningPort:
            port = TlsServerFactory(factory, self._accepting, self._clock, plain=False, watched=[files])
            self.handshakes.append(port.handshakes)
            return listen(port)

        return listen_with_tls

    def _server(self, material: Material) -> SSL.Context:
        assert material.identity is not None
        return server_context(material.identity, material.trust, ClientAuth.REQUIRE, self._peers)

    def _client(self, material: Material) -> SSL.Context:
        return client_context(material.identity, material.trust, peers=self._peers)
