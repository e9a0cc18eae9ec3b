"""A broker as a service: a node, its role, and what it has to do with other nodes.

Read `brokernode` (start and stop, in order), `masternode` and `slavenode` (what each role adds), `writepath`
(all ways by which messages come into a master), `masterlog` (what a slave asks about the log), `slavesync` (a
slave takes over its master's tables) and `registration` (name servers).

A node is put together by `hatwisted.assembly` and makes nothing that reaches outside by itself. No slave
becomes a master.
"""
