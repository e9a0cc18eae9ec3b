"""How a user's connections are encrypted: the environment, and RocketMQ's own file of TLS properties.

mqadmin takes `-Dtls.enable=true` and reads `/etc/rocketmq/tls.properties`, or the file that
`-Dtls.config.file` names. Other than there, a server's certificate is checked unless the file says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import VERIFY, Tls, Verify
from hatwisted.wire.javaproperties import TLS_FILE, MalformedProperties, parse_properties

TLS_VARIABLE: Final = "HATWISTED_TLS"
"""Says whether to encrypt."""
FILE_VARIABLE: Final = "HATWISTED_TLS_PROPERTIES"
"""Names the file."""
VERIFY_VARIABLE: Final = "HATWISTED_TLS_VERIFY"
"""What of a server's certificate is checked."""
USERS_FILE: Final = ".hatwisted/tls.properties"
"""In a user's home folder; looked at before RocketMQ's."""
MAX_SIZE: Final = 64 << 10
"""Bytes of such a file."""
_WORDS: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("", "0", "false", "f", "no", "n", "off"), False),
}
"""As click reads them."""


def wants_tls(environ: Mapping[str, str]) -> bool:
    """Does the environment say that connections are to be encrypted? Raises BadSetting."""
    said = environ.get(TLS_VARIABLE, "").strip().lower()
    if said not in _WORDS:
        raise BadSetting(f"{TLS_VARIABLE}={said}: give true or false")
    return _WORDS[said]


def find_tls(environ: Mapping[str, str], home: Path, verify: str | None = None) -> Tls:
    """How a user's connections are encrypted: by the file that a variable names, else the user's, else RocketMQ's.

    - environ: the environment
    - home: the user's folder
    - verify: counts more than what variable and file say

    Raises BadSetting naming what's wrong.
    """
    named, verify = environ.get(FILE_VARIABLE), verify or environ.get(VERIFY_VARIABLE) or None
    if verify is not None and verify not in VERIFY:
        raise BadSetting(f"{VERIFY_VARIABLE}={verify}: give one of {', '.join(VERIFY)}")
    file = Path(named) if named else next(filter(Path.is_file, (home / USERS_FILE, Path(TLS_FILE))), None)
    return tls_of_properties({} if file is None else read_properties(file), verify)


def tls_of_properties(properties: Mapping[str, str], verify: str | None = None) -> Tls:
    """What a file of TLS properties says to clients.

    - properties: of the file
    - verify: counts more than `tls.client.authServer`
    """
    if verify is None:
        # RocketMQ's check doesn't look at host names.
        said = properties.get("tls.client.authServer", "").strip().lower()
        verify = {"true": "chain", "false": "none"}.get(said, "full")

    def value(name: str) -> str | None:
        return properties.get(f"tls.client.{name}") or None

    return Tls(
        trust_file=value("trustCertPath"),
        certificate=value("certPath"),
        key=value("keyPath"),
        key_password=value("keyPassword"),
        verify=cast(Verify, verify),
    )


def read_properties(path: Path) -> dict[str, str]:
    """What is in a file of properties. Raises BadSetting."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
        if len(data) > MAX_SIZE:
            raise BadSetting(f"{path}: more than {MAX_SIZE} bytes are no file of TLS properties")
        return {entry.key: entry.value for entry in parse_properties(data, str(path))}
    except OSError as error:
        raise BadSetting(f"{path}: can't be read: {error.strerror or error}") from None
    except MalformedProperties as error:
        raise BadSetting(str(error)) from None
