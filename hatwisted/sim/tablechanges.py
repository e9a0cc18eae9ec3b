"""Changes of topics and groups, and mqadmin's requests for them."""

from __future__ import annotations

from typing import NamedTuple

from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import SINGLE_TAG
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC


class Key(NamedTuple):
    """What is changed. kind: topic or group."""

    kind: str
    name: str


def change_request(key: Key, value: int | None) -> RemotingCommand:
    """A topic with that permission, a group with so many retries; None: without it."""
    if key.kind == "topic":
        if value is None:
            return RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": key.name})
        fields = {
            "topic": key.name,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": "4",
            "writeQueueNums": "4",
            "perm": str(value),
            "topicFilterType": SINGLE_TAG,
            "topicSysFlag": "0",
            "order": "false",
        }
        return RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields)
    if value is None:
        return RemotingCommand(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext={"groupName": key.name})
    body = fastjson.dumps_compact({"groupName": key.name, "retryMaxTimes": value})
    return RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
