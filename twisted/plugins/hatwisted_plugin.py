"""The three subcommands that twistd finds: hamaster, haslave, hanamesrv.

This folder is shared with Twisted's own plugins and must have no __init__.py.
"""

from twisted.application.service import ServiceMaker

master = ServiceMaker(
    "hatwisted master",
    "hatwisted.tap.hamaster",
    "RocketMQ-compatible broker, master: stores messages and replicates them.",
    "hamaster",
)
slave = ServiceMaker(
    "hatwisted slave",
    "hatwisted.tap.haslave",
    "RocketMQ-compatible broker, slave: copies a master and serves reads.",
    "haslave",
)
name_server = ServiceMaker(
    "hatwisted name server",
    "hatwisted.tap.hanamesrv",
    "RocketMQ-compatible name server.",
    "hanamesrv",
)
