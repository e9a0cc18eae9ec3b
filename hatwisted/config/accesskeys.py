"""Whom a server lets in, and how much each may ask for: what a broker and a name server share.

Keys whose words begin with "Ours" aren't RocketMQ's. Its name server has no accounts.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hatwisted.config.values import PATH, Bool, Count, NetworkList, Optional, Whole


class AccessKeys(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who may connect to a server and ask it."""

    # -- who may connect
    listen_allow_list: NetworkList = None
    """Ours: networks from where clients may connect; everywhere if the file doesn't say."""
    proxy_protocol_from: NetworkList = None
    """Ours: networks of proxies, whose connections begin with a PROXY header (version 1 or 2)."""
    admin_allow_list: NetworkList = None
    """Ours: networks from where the server may be changed. If the file doesn't say: with accounts from
    everywhere, else from its own host alone."""

    # -- limits of one client
    max_connections_per_address: Annotated[int | None, Optional(Whole(1))] = None
    """Ours: connections of one address, all ports together; half of what there may be if the file doesn't
    say."""
    max_unread_answer_bytes: Annotated[int | None, Optional(Whole(16 << 20, unit="bytes"))] = None
    """Ours: bytes of answers that clients may leave unread, all connections together, beside what the kernel
    takes; 64 MiB if the file doesn't say. Beyond that who leaves most is closed."""
    address_request_rate: Count = 0
    """Ours: requests a second of one address; 0: any number. Beyond that the answer is SYSTEM_BUSY."""
    address_byte_rate: Count = 0
    """Ours: bytes a second of its requests, headers included; 0: any number."""
    account_request_rate: Count = 0
    """Ours: requests a second of one account, with `aclEnable`; 0: any number."""
    account_byte_rate: Count = 0
    """Ours: bytes a second of its requests, headers included; 0: any number."""
    failed_login_rate: Count = 10
    """Ours: wrong signatures of one address for one account, and its wrong passwords for the live page, that are
    looked at in a second; 0: any number. Beyond that the answer is SYSTEM_BUSY, or 429 by the page."""
    server_channel_max_idle_time_seconds: Annotated[int, Whole(1, unit="seconds")] = 120
    """A connection without a byte for this long, or up to twice that, is closed."""

    # -- accounts
    acl_enable: Bool = False
    """Serve only requests that an account of ACL 1.0 allows; by a name server, register only administrators'
    brokers."""
    rocketmq_home: Annotated[str | None, Optional(PATH)] = None
    """The folder in which RocketMQ's `conf/` lies; the environment's ROCKETMQ_HOME if the file doesn't say."""
    acl_plain_file: Annotated[str | None, Optional(PATH)] = None
    """The file of accounts, RocketMQ's `-Drocketmq.acl.plain.file`; `conf/plain_acl.yml` in `rocketmqHome` if the
    file doesn't say. There may be more files in the folder `acl` next to it."""
