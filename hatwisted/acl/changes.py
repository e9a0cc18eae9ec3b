"""The requests by which somebody changes or deletes what isn't theirs alone: code -> the name of the event.

They are taken from `adminAllowList` only (`adminguard`), and each leaves a line in the log (`audittrail`). Names
stay as they are: those who read logs look for them. What clients do to their own, by their daily work (a commit,
a lock, a first message that makes its topic), isn't among them; nor is what brokers tell name servers and each
other, which is taken from everywhere, and leaves a line where it displaces what was there (BROKERS_WORD).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hatwisted.wire.codes import RequestCode

BROKER_CHANGES: Final[Mapping[int, str]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: "topic.put",
    RequestCode.DELETE_TOPIC_IN_BROKER: "topic.delete",
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: "queues.clean-expired",
    RequestCode.CLEAN_UNUSED_TOPIC: "queues.clean-unused",
    RequestCode.DELETE_EXPIRED_COMMITLOG: "log.delete-expired",
    RequestCode.REPAIR_LOG: "log.repair",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "group.put",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: "group.delete",
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "progress.reset",
    RequestCode.CLONE_GROUP_OFFSET: "progress.clone",
    RequestCode.UPDATE_BROKER_CONFIG: "config.put",
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: "account.put",
    RequestCode.DELETE_ACL_CONFIG: "account.delete",
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: "account.addresses",
}

NAME_SERVER_CHANGES: Final[Mapping[int, str]] = {
    RequestCode.PUT_KV_CONFIG: "setting.put",
    RequestCode.DELETE_KV_CONFIG: "setting.delete",
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: "route.read-only",
    RequestCode.ADD_WRITE_PERM_OF_BROKER: "route.writable",
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: "route.put",
    RequestCode.DELETE_TOPIC_IN_NAMESRV: "route.delete",
    RequestCode.UPDATE_NAMESRV_CONFIG: "config.put",
}

BROKERS_WORD: Final[Mapping[int, str]] = {
    RequestCode.REGISTER_BROKER: "broker.displace",
    RequestCode.UNREGISTER_BROKER: "broker.unregister",
    RequestCode.JOIN_CONSUMER_OFFSET: "progress.join",
}
"""A broker in the place, or at the address, of a living one; one that goes; progress that goes back."""
