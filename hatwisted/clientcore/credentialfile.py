"""An account's keys in a file or the environment, so that they stand in no command line and no program.

The file is RocketMQ's own `tools.yml`: `accessKey`, `secretKey`, and `securityToken` of temporary keys.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting
from hatwisted.wire.signing import key_text

MAX_SIZE: Final = 8 << 10
"""Bytes of such a file."""

ACCESS_KEY_VARIABLE: Final = "HATWISTED_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "HATWISTED_SECRET_KEY"
TOKEN_VARIABLE: Final = "HATWISTED_SECURITY_TOKEN"
FILE_VARIABLE: Final = "HATWISTED_CREDENTIALS"
"""Names the file."""

USERS_FILE: Final = ".hatwisted/credentials"
"""In a user's home folder."""
TOOLS_FILE: Final = "conf/tools.yml"
"""In the folder that ROCKETMQ_HOME names."""


def parse_credentials(data: bytes, name: str) -> Credentials:
    """The account in a file's content. name: the file's, for errors. Raises BadSetting, without the secret."""
    if len(data) > MAX_SIZE:
        raise BadSetting(f"{name}: {len(data)} bytes are too many for one account")
    import yaml  # not by each command: it takes 9 to 18 ms

    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError):
        raise BadSetting(f"{name}: not YAML: it must have lines accessKey: ... and secretKey: ...") from None
    entries = found if isinstance(found, dict) else {}
    access_key, secret_key = key_text(entries.get("accessKey")), key_text(entries.get("secretKey"))
    if not access_key or not secret_key:
        raise BadSetting(f"{name}: must have lines accessKey: ... and secretKey: ...")
    return Credentials(access_key, secret_key, key_text(entries.get("securityToken")))


def find_credentials(environ: Mapping[str, str], home: Path) -> Credentials | None:
    """A user's account: from variables, the file that one of them names, the user's file, RocketMQ's tools.yml.

    - environ: the environment
    - home: the user's folder

    None if nothing says who the user is. Raises BadSetting.
    """
    path = credentials_file(environ, home)
    return credentials_of_variables(environ) if path is None else read_credentials(path)


def credentials_of_variables(environ: Mapping[str, str]) -> Credentials | None:
    """The account that variables say; None if they say none. Raises BadSetting."""
    access_key, secret_key = environ.get(ACCESS_KEY_VARIABLE), environ.get(SECRET_KEY_VARIABLE)
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        raise BadSetting(f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE} must be set together")
    return Credentials(access_key, secret_key, environ.get(TOKEN_VARIABLE) or None)


def credentials_file(environ: Mapping[str, str], home: Path) -> Path | None:
    """The file that a user's account is in: the one that a variable names, the user's own, RocketMQ's tools.yml;
    None if there is none of them, or variables say the account.

    - environ, home: as of find_credentials
    """
    if environ.get(ACCESS_KEY_VARIABLE) or environ.get(SECRET_KEY_VARIABLE):
        return None
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    return next((path for path in _usual_places(environ, home) if path.is_file()), None)


def read_credentials(path: Path) -> Credentials:
    """The account in a file. Raises BadSetting."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise BadSetting(f"{path}: can't be read: {error.strerror or error}") from None
    return parse_credentials(data, str(path))


def legible(paths: Iterable[str]) -> str | None:
    """A line that names those which any user of this host may read, or change; None if there are none."""
    named = [path for path in dict.fromkeys(paths) if _is_legible(path)]
    if not named:
        return None
    return f"any user of this host may read or change what is secret: chmod o= {' '.join(named)}"


def _is_legible(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False  # gone again
    return bool(mode & (stat.S_IROTH | stat.S_IWOTH))


def _usual_places(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    yield home / USERS_FILE
    if rocketmq_home := environ.get("ROCKETMQ_HOME"):
        yield Path(rocketmq_home, TOOLS_FILE)
