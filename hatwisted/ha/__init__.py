"""The HA link: a master streams its commit log to any number of slaves, which acknowledge by offset.

Read `interfaces` and `events` first (what a dialect makes of a link's bytes), then the parts without I/O:
`slaveprogress` (a link seen from the master) and `replicas`, `framecheck` and `slavestate` (the same from the
slave), `firstsync` (where a slave begins), `handshake` (what it finds out first), `overlap` (the proof that it
goes on there), `framing`, `grouptransfer` (puts that wait for a slave), `settings`. Then the Twisted classes:
`master` with `haconnection`, `slave` with `haclient`. `filesend` brings the log to a slave that lags. `drain` is
the master's wait at its stop, `slavewatch` and `transferrate` what it says about its slaves. `classic` is
RocketMQ 4's dialect of the link; `slavehosts`, `linklimits`, `refusals` and `sockets` deal with who connects, how
many, and how.

The link moves the bytes of a log and knows no topic, queue or message. No slave is ever promoted, and no byte
of a slave's log is cut to make it fit.
"""
