"""Administration for Twisted programs: the logic of `clientcore.admin`, with Deferreds."""

from __future__ import annotations

from hatwisted.client.faces import returning_deferred
from hatwisted.clientcore import admin


class Admin:
    """Made by `Cluster.admin`. Methods return Deferreds; they fail with Refused, CallFailed, NoNameServer or
    NoRoute."""

    def __init__(self, core: admin.Admin) -> None:
        self._core = core

    topics = returning_deferred(admin.Admin.topics)
    route = returning_deferred(admin.Admin.route)
    create_topic = returning_deferred(admin.Admin.create_topic)
    delete_topic = returning_deferred(admin.Admin.delete_topic)
    topic_offsets = returning_deferred(admin.Admin.topic_offsets)
    cluster_info = returning_deferred(admin.Admin.cluster_info)
    broker_info = returning_deferred(admin.Admin.broker_info)
    ha_status = returning_deferred(admin.Admin.ha_status)
    message_by_id = returning_deferred(admin.Admin.message_by_id)
    messages_by_key = returning_deferred(admin.Admin.messages_by_key)
    messages_at = returning_deferred(admin.Admin.messages_at)
    broker_config = returning_deferred(admin.Admin.broker_config)
    set_broker_config = returning_deferred(admin.Admin.set_broker_config)
    set_writable = returning_deferred(admin.Admin.set_writable)
    groups = returning_deferred(admin.Admin.groups)
    create_group = returning_deferred(admin.Admin.create_group)
    delete_group = returning_deferred(admin.Admin.delete_group)
    members = returning_deferred(admin.Admin.members)
    progress = returning_deferred(admin.Admin.progress)
    clone_plan = returning_deferred(admin.Admin.clone_plan)
    clone = returning_deferred(admin.Admin.clone)
    offset_at = returning_deferred(admin.Admin.offset_at)
    reset_plan = returning_deferred(admin.Admin.reset_plan)
    reset = returning_deferred(admin.Admin.reset)
