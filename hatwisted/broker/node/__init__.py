"""A broker as a service: a node, its role, and what it has to do with other nodes.

Read `brokernode` (start and stop, in order), `masterrole` and `slaverole` (what each role adds), `registration`
(name servers), `masteraddress` (where the master is), `masterlog` (what a slave asks about its log),
`joincheck` (may it copy this master?), `copyreport` (how far it has come), `logaudit` and `logrepair` on
`comparedlogs` (a slave's log compared with its master's), `slavesync` with `tabledoubt`, `progressjoin` and
`tablehold`, and on `followedmaster` `tablewatch` and `topicversions` (a slave takes over its master's tables),
`queuenumbers` (and the ends of queues that it has nothing of), `tablefollowers` (who watches a master's),
`progressanswers` (when RocketMQ's slaves are told of progress), `slaveids` (two slaves with one id) and
`losttopics` (topics that have messages and no file).

A node is put together by `hatwisted.assembly` and makes nothing that reaches outside by itself. No slave
becomes a master.
"""
