"""The HA link: a master streams its commit log to any number of slaves, which acknowledge by offset.

The states and positions of a link are plain objects without I/O (`progress`, `replicas`, `frame_check`,
`slavestate`); the Twisted classes on top (`connection` and `master`, `client` and `slave`) move bytes and
look at the clock.
"""
