"""Accounts, seen and changed by administrators: codes 50 to 54, mqadmin's `updateAclConfig` and the like.

Only where `aclEnable` is set; else they are not supported. What is changed is on the disk before the answer, and a
change that the next start would refuse is refused now. RocketMQ's own answers are 209 to 211.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from hatwisted.acl.account import (
    ACCESS_KEY,
    ADMIN,
    DEFAULT_GROUP,
    DEFAULT_TOPIC,
    FIELDS,
    GROUPS,
    SECRET_KEY,
    TOPICS,
    WHITE_ADDRESS,
    checked_key,
)
from hatwisted.acl.aclfile import ACCOUNTS, ADDRESSES
from hatwisted.acl.aclfiles import AclError, AclFiles
from hatwisted.acl.permissions import check_word
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import bool_field, text_field

_FAILED: Final = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
    RequestCode.DELETE_ACL_CONFIG: ResponseCode.DELETE_ACL_CONFIG_FAILED,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
}
"""What a change that can't be made is answered with."""


class AclAdmin:
    """Answers 50 to 54.

    - files: the accounts
    - identity: this broker
    """

    def __init__(self, files: AclFiles, identity: BrokerIdentity) -> None:
        self._files = files
        self._identity = identity

    def register_on(self, table: ProcessorTable) -> None:
        """Put all handlers into `table`."""
        table.register(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, answer_bad_requests(self.put_account))
        table.register(RequestCode.DELETE_ACL_CONFIG, answer_bad_requests(self.delete_account))
        table.register(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, answer_bad_requests(self.put_addresses))
        table.register(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, self.show_versions)
        table.register(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, self.show)

    def put_account(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> Deferred[RemotingCommand]:
        """50: make an account, or change the fields that are given."""
        ext = request.ext
        change: dict[str, Any] = {
            ACCESS_KEY: text_field(ext, ACCESS_KEY),
            SECRET_KEY: ext.get(SECRET_KEY),
            WHITE_ADDRESS: ext.get(WHITE_ADDRESS),
            ADMIN: bool_field(ext, ADMIN),
            DEFAULT_TOPIC: ext.get(DEFAULT_TOPIC) or None,
            DEFAULT_GROUP: ext.get(DEFAULT_GROUP) or None,
            TOPICS: _list(ext.get(TOPICS)),
            GROUPS: _list(ext.get(GROUPS)),
        }

        def begin() -> Deferred[None]:
            # RocketMQ wants both, of an account that is there, too.
            for name in (ACCESS_KEY, SECRET_KEY):
                checked_key(name, change[name])
            for name in (DEFAULT_TOPIC, DEFAULT_GROUP):
                if change[name] is not None:
                    check_word(change[name])
            return self._files.put_account(change)

        return _answered(request, begin)

    def delete_account(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> Deferred[RemotingCommand]:
        """51."""
        access_key = text_field(request.ext, ACCESS_KEY)
        delete = partial(self._files.delete_account, access_key)
        return _answered(request, delete)

    def put_addresses(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> Deferred[RemotingCommand]:
        """53: the addresses of a file from where no request needs a signature."""
        addresses = _list(text_field(request.ext, "globalWhiteAddrs")) or []
        put = partial(self._files.put_addresses, addresses, request.ext.get("aclFileFullPath", ""))
        return _answered(request, put)

    def show_versions(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """52: how often each file has been changed."""
        ext = {
            "version": fastjson.dumps_compact(self._files.main_version).decode(),
            "allAclFileVersion": fastjson.dumps_compact(dict(self._files.versions)).decode(),
            "brokerName": self._identity.name,
            "brokerAddr": self._identity.address,
            "clusterName": self._identity.cluster,
        }
        return response(request, ext=ext)

    def show(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        """54: all accounts, secrets included, as those who may change them are shown by RocketMQ."""
        documents = self._files.documents.values()
        accounts = [entry for document in documents for entry in document.get(ACCOUNTS) or []]
        body = {
            "globalWhiteAddrs": [each for document in documents for each in document.get(ADDRESSES) or []],
            "plainAccessConfigs": [
                {name: entry[name] for name in FIELDS if entry.get(name) is not None} for entry in accounts
            ],
        }
        return response(request, body=fastjson.dumps_compact(body))


def _answered(request: RemotingCommand, begin: Callable[[], Deferred[None]]) -> Deferred[RemotingCommand]:
    def refused(failure: Failure) -> RemotingCommand:
        failure.trap(AclError, OSError, ValueError)
        return response(request, _FAILED[RequestCode(request.code)], failure.getErrorMessage())

    return maybeDeferred(begin).addCallback(lambda _: response(request)).addErrback(refused)


def _list(text: str | None) -> list[str] | None:
    """The parts of a list with commas; None if it isn't there."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
