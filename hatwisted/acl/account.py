"""One account of an ACL file: the entry as RocketMQ writes it, and what it means."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hatwisted.acl.addresspattern import AddressPattern
from hatwisted.acl.permissions import DENY, GROUP, parse_resources, permission_of
from hatwisted.wire.signing import SecretKey, key_text

KEY_LENGTH: Final = 7
"""Characters that an access key and a secret key have at least: RocketMQ's rule."""
MAX_KEY_LENGTH: Final = 256
"""Characters of either at most."""

ACCESS_KEY: Final = "accessKey"
SECRET_KEY: Final = "secretKey"
WHITE_ADDRESS: Final = "whiteRemoteAddress"
ADMIN: Final = "admin"
DEFAULT_TOPIC: Final = "defaultTopicPerm"
DEFAULT_GROUP: Final = "defaultGroupPerm"
TOPICS: Final = "topicPerms"
GROUPS: Final = "groupPerms"

FIELDS: Final = (
    ACCESS_KEY,
    SECRET_KEY,
    WHITE_ADDRESS,
    ADMIN,
    DEFAULT_TOPIC,
    DEFAULT_GROUP,
    TOPICS,
    GROUPS,
)
"""Of an entry, in the order in which they are written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What an entry means.

    - access_key: its name
    - secret_key: proves that a request is its
    - white: addresses from where it needs no proof, and may do anything, as in RocketMQ
    - admin: may it do what only administrators may?
    - default_topic, default_group: permissions for what `resources` doesn't name
    - resources: topic, or GROUP and a group's name -> permissions
    """

    access_key: str
    secret_key: SecretKey = field(repr=False)
    white: AddressPattern
    admin: bool
    default_topic: int
    default_group: int
    resources: Mapping[str, int]

    def allows(self, resource: str, needed: int) -> bool:
        """May it do that with a topic, or a group?

        - resource: the topic, or GROUP and the group's name
        - needed: PUB or SUB
        """
        if self.admin and not self.resources:
            return True
        owned = self.resources.get(resource)
        if owned is None:
            owned = self.default_group if resource.startswith(GROUP) else self.default_topic
        return not owned & DENY and owned & needed != 0


def parse_account(entry: Mapping[str, Any]) -> Account:
    """An entry of a file. Raises ValueError, which never has the secret in it."""
    access_key = checked_key(ACCESS_KEY, entry.get(ACCESS_KEY))
    try:
        secret_key = checked_key(SECRET_KEY, entry.get(SECRET_KEY))
        groups = parse_resources(_list(entry, GROUPS))
        resources = {GROUP + name: perm for name, perm in groups.items()}
        return Account(
            access_key=access_key,
            secret_key=SecretKey(secret_key),
            white=AddressPattern(_text(entry, WHITE_ADDRESS)),
            admin=str(entry.get(ADMIN, "")).lower() == "true",
            default_topic=permission_of(_text(entry, DEFAULT_TOPIC)),
            default_group=permission_of(_text(entry, DEFAULT_GROUP)),
            resources=resources | parse_resources(_list(entry, TOPICS)),
        )
    except ValueError as error:
        raise ValueError(f"account {access_key}: {error}") from None


_MARKING: Final = secrets.token_bytes(16)
"""Known to this process alone, so that nobody tries secrets by their marks."""


def shown_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What people may see of a file's entry. In place of its secret there is a mark, as long as the process lives
    the same one for the same secret."""
    shown = {name: entry[name] for name in FIELDS if name in entry}
    if SECRET_KEY in shown:
        secret = f"{entry.get(ACCESS_KEY)}\n{shown[SECRET_KEY]}".encode("utf-8", "replace")
        shown[SECRET_KEY] = f"hidden, {hmac.digest(_MARKING, secret, 'sha256').hex()[:8]}"
    return shown


def checked_key(name: str, value: object) -> str:
    """An access key or a secret key. Raises ValueError, without the value."""
    text = key_text(value) or ""
    if not KEY_LENGTH <= len(text) <= MAX_KEY_LENGTH:
        raise ValueError(f"{name} must have {KEY_LENGTH} to {MAX_KEY_LENGTH} characters, not {len(text)}")
    return text


def _text(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name} must be text")


def _list(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} must be a list of entries NAME=PERMISSION")
    return value
