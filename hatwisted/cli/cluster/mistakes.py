"""What a command says of a mistake: the client's own error, shortened, and what to do about it.

An error of the client says what happened, for programs as for people. Here it becomes a line for whoever has typed
the command: Twisted's "Connection was refused by other side: 111: Connection refused." says one thing twice; a
mistyped topic or group is followed by the nearest one that there is; and where somebody else's words don't say
what to do next, ours do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final

import click
from click.core import ParameterSource

from hatwisted.cli.errors import CannotRun
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError, NoNameServer, NoRoute, Refused
from hatwisted.wire.codes import RequestCode, ResponseCode

ANSWER_TIMEOUT: Final = 2.0
"""Seconds for the cluster to say which topics or groups there are; the mistake is told without them, too."""

_ERRNO: Final = re.compile(r"can't connect: [^:;]+: \d+: ([^.;]+)\.?")
_DNS: Final = re.compile(r"can't connect: DNS lookup failed: no results for hostname lookup: [^\s;]+")
_UNSUPPORTED: Final = re.compile(r"request type (\d+) not supported")
_UNKNOWN_GROUP: Final = re.compile(r"group (\S+): no broker knows it")
_NEVER_REFUSED: Final = frozenset(
    (
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    )
)
"""Of a broker, whatever its version: one that doesn't know them is none."""
_REFUSED_ACCOUNT: Final = "AclException"
_ABOUT_ACCOUNTS: Final = {
    "No accessKey is configured": "name an account's file by --credentials",
    "No acl config for": "the brokers' ACL files have no such account",
    "Check signature failed": "the secret key isn't the account's, or the request was changed on its way",
    "No default permission for group:": "the account needs it in groupPerms, as GROUP=SUB",
    "No default permission for topic:": "the account needs it in topicPerms, as TOPIC=PUB|SUB",
    "Need admin permission": "use an administrator's account",
}
"""What brokers say of accounts -> what to do about it."""


def cannot(error: ClientError) -> CannotRun:
    """The line of it."""
    text = shortened(" ".join(str(error).split()))
    if isinstance(error, NoNameServer):
        return CannotRun(f"{text.removesuffix('.')}. {_where_then(text)}")
    advice = _about(text, error)
    return CannotRun(f"{text.removesuffix('.')}; {advice}" if advice else text)


def shortened(text: str) -> str:
    """Without what Twisted says twice."""
    text = _ERRNO.sub(lambda found: f"can't connect: {found[1][0].lower()}{found[1][1:]}", text)
    return _DNS.sub("can't connect: no such host", text)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one that was meant, perhaps."""
    near = get_close_matches(name, list(known), 1)
    return near[0] if near else None


Work = Callable[[Cluster, Any], Awaitable[int | None]]


def with_names(work: Work) -> Work:
    """The same work; where it finds no such topic or group, the error names the nearest one, or how to see all."""

    async def wrapped(cluster: Cluster, interrupt: Any) -> int | None:
        try:
            return await work(cluster, interrupt)
        except ClientError as error:
            if (advice := await _names(cluster, error)) is None:
                raise
            raise CannotRun(f"{error}; {advice}") from error

    return wrapped


async def _names(cluster: Cluster, error: ClientError) -> str | None:
    asked: Callable[[], Any]
    if isinstance(error, NoRoute) and "don't know it" in str(error):
        name, all_of_them, asked = error.topic, "hatwisted topic list", cluster.admin().topics
    elif found := _UNKNOWN_GROUP.match(str(error)):
        name, all_of_them, asked = found[1], "hatwisted group list", cluster.admin().groups
    else:
        return None
    try:
        known = await asked().addTimeout(ANSWER_TIMEOUT, cluster.clock)
    except Exception:  # it is about the mistake before it
        return None
    near = nearest(name, known)
    return f"did you mean {near}?" if near else f"{all_of_them} shows what there is"


def _where_then(text: str) -> str:
    """What to do where no name server answers: nobody may have said where they are.

    - text: what those that were asked did
    """
    if ResponseCode.REQUEST_CODE_NOT_SUPPORTED.name in text:
        return "What answers there is no name server: is it a broker's port?"
    context = click.get_current_context(silent=True)
    if context is not None and context.get_parameter_source("namesrv") is ParameterSource.DEFAULT:
        return "Name your cluster's by -n HOST or NAMESRV_ADDR, or start a group for trying out: hatwisted up"
    return "Is one running there, and is its port open to this host?"


def _about(text: str, error: ClientError) -> str | None:
    """What to do about it, where a broker's words don't say so."""
    if "not support" in text and "SQL92" in text and "enablePropertyFilter" not in text:
        return "set enablePropertyFilter=true on the brokers, slaves as well"
    if _REFUSED_ACCOUNT in text:
        return next((advice for words, advice in _ABOUT_ACCOUNTS.items() if words in text), None)
    if isinstance(error, Refused) and (found := _UNSUPPORTED.search(error.remark)):
        return (
            "no broker answers so: is it a name server's port?" if int(found[1]) in _NEVER_REFUSED else None
        )
    return None
