"""How a server encrypts: RocketMQ's TLS properties, which a broker and a name server share.

RocketMQ takes them as `-D` properties of its JVM, and all but `tls.enable` and `tls.server.mode` from the
file that `tls.config.file` names as well; here they are also keys of the configuration. Names and defaults
are 4.9.7's (TlsSystemConfig), but for `tls.test.mode.enable`: a certificate that is given is used, not a
self-signed one.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from hatwisted.config.accesskeys import AccessKeys
from hatwisted.config.values import PATH, Bool, Choice, Flag, Optional, Secret, Text

FILE_KEY = "tls.config.file"
"""Names another one."""
MODE_KEY = "tls.server.mode"
NOT_IN_FILE = ("tls.enable", MODE_KEY, FILE_KEY)
"""Keys that don't count in it."""


class TlsMode(Enum):
    """What a port speaks: plain bytes alone, both, TLS alone."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsClientAuth(Enum):
    """Is a client asked for a certificate?"""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


TlsPath = Annotated[str | None, Optional(PATH)]
Password = Annotated[str | None, Secret()]


class TlsKeys(AccessKeys, frozen=True, kw_only=True):
    """The TLS properties of a server, beside whom it lets in."""

    # -- TLS of its ports
    tls_server_mode: Annotated[TlsMode, Choice(TlsMode, any_case=True)] = msgspec.field(
        name=MODE_KEY, default=TlsMode.PERMISSIVE
    )
    """disabled: plain connections alone; permissive: both; enforcing: TLS alone."""
    tls_test_mode_enable: Annotated[bool | None, Optional(Flag())] = msgspec.field(
        name="tls.test.mode.enable", default=None
    )
    """Show a self-signed certificate; if nothing is said, unless one is given."""
    tls_server_cert_path: TlsPath = msgspec.field(name="tls.server.certPath", default=None)
    """PEM: the server's certificate, with the chain that leads to an authority."""
    tls_server_key_path: TlsPath = msgspec.field(name="tls.server.keyPath", default=None)
    """PEM: its key."""
    tls_server_key_password: Password = msgspec.field(name="tls.server.keyPassword", default=None)
    """That key's password. Never shown."""
    tls_server_need_client_auth: Annotated[TlsClientAuth, Choice(TlsClientAuth, any_case=True)] = (
        msgspec.field(name="tls.server.need.client.auth", default=TlsClientAuth.NONE)
    )
    """Are clients asked for a certificate?"""
    tls_server_auth_client: Bool = msgspec.field(name="tls.server.authClient", default=False)
    """Must a client's certificate lead to one of `tls.server.trustCertPath`?"""
    tls_server_trust_cert_path: TlsPath = msgspec.field(name="tls.server.trustCertPath", default=None)
    """PEM: authorities of clients' certificates, or single ones."""

    @property
    def tls_self_signed(self) -> bool:
        """Is a certificate shown that nobody vouches for?"""
        if self.tls_test_mode_enable is None:
            return self.tls_server_cert_path is None and self.tls_server_key_path is None
        return self.tls_test_mode_enable


class TlsClientKeys(TlsKeys, frozen=True, kw_only=True):
    """And those of a server that calls others: a broker its name servers and its master."""

    # -- TLS of its own calls
    tls_enable: Bool = msgspec.field(name="tls.enable", default=False)
    """Call name servers and the master over TLS."""
    use_tls: Bool = msgspec.field(name="useTLS", default=False)
    """The same, as a key of RocketMQ's configuration."""
    tls_client_cert_path: TlsPath = msgspec.field(name="tls.client.certPath", default=None)
    """PEM: the certificate to show to a server that asks."""
    tls_client_key_path: TlsPath = msgspec.field(name="tls.client.keyPath", default=None)
    """PEM: its key."""
    tls_client_key_password: Password = msgspec.field(name="tls.client.keyPassword", default=None)
    """That key's password. Never shown."""
    tls_client_auth_server: Bool = msgspec.field(name="tls.client.authServer", default=False)
    """Must a server's certificate lead to one of `tls.client.trustCertPath`?"""
    tls_client_trust_cert_path: TlsPath = msgspec.field(name="tls.client.trustCertPath", default=None)
    """PEM: authorities of servers' certificates."""


class LinkTlsKeys(TlsClientKeys, frozen=True, kw_only=True):
    """And those of a broker's HA link, all ours: RocketMQ's is plain."""

    # -- TLS of the HA link
    ha_tls_enable: Bool = msgspec.field(name="haTlsEnable", default=False)
    """Ours: copy the log over TLS, between brokers that show each other a certificate, and in no other
    way."""
    ha_tls_cert_path: TlsPath = msgspec.field(name="haTlsCertPath", default=None)
    """Ours: PEM, what this broker shows on the HA link, as master and as slave."""
    ha_tls_key_path: TlsPath = msgspec.field(name="haTlsKeyPath", default=None)
    """Ours: PEM, its key."""
    ha_tls_key_password: Password = msgspec.field(name="haTlsKeyPassword", default=None)
    """Ours: that key's password. Never shown."""
    ha_tls_trust_cert_path: TlsPath = msgspec.field(name="haTlsTrustCertPath", default=None)
    """Ours: PEM, authorities of the other brokers of the group."""
    ha_tls_peers: Annotated[str | None, Optional(Text())] = msgspec.field(name="haTlsPeers", default=None)
    """Ours: names in the other brokers' certificates, separated by semicolons; any if the file doesn't
    say."""


def tls_advice(config: TlsKeys) -> dict[str, str]:
    """Key -> what its owner should know: settings that do less than they seem to."""
    advice: dict[str, str] = {}
    if isinstance(config, LinkTlsKeys) and config.ha_tls_cert_path and not config.ha_tls_enable:
        advice["haTlsCertPath"] = "the HA link is plain all the same; set haTlsEnable=true"
    if config.tls_server_mode is TlsMode.DISABLED:
        return advice
    given = config.tls_server_cert_path is not None or config.tls_server_key_path is not None
    if config.tls_self_signed and given:
        advice["tls.test.mode.enable"] = (
            "a self-signed certificate is shown, and tls.server.certPath isn't used; remove this key"
        )
    elif config.tls_self_signed and config.tls_server_mode is TlsMode.ENFORCING:
        advice["tls.server.mode"] = (
            "a self-signed certificate is shown, by which no client can tell this server from another; set "
            "tls.server.certPath and tls.server.keyPath"
        )
    asked = config.tls_server_need_client_auth is not TlsClientAuth.NONE
    if config.tls_server_auth_client and not asked:
        advice["tls.server.authClient"] = (
            "no client is asked for a certificate; set tls.server.need.client.auth=require"
        )
    elif asked and not config.tls_server_auth_client:
        advice["tls.server.need.client.auth"] = (
            "any certificate will do; set tls.server.authClient=true and tls.server.trustCertPath"
        )
    return advice
