"""Contents of ACL files for tests, RocketMQ's sample conf/plain_acl.yml among them, and signed requests."""

from __future__ import annotations

from hatwisted.clientcore.credentials import Credentials
from hatwisted.wire.remoting import RemotingCommand

SECRET = "12345678"

SAMPLE = b"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB

- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
"""

USER = Credentials("RocketMQ", SECRET)
ADMIN = Credentials("rocketmq2", SECRET)
OTHER_SECRET = Credentials("rocketmq2", "wrong-secret")
"""Whose signatures are wrong."""


def request(code: int, account: Credentials | None = USER, body: bytes = b"", **ext: str) -> RemotingCommand:
    """A request, signed if there is an account."""
    made = RemotingCommand(code, ext=dict(ext), body=body)
    if account is not None:
        account.sign(made)
    return made
