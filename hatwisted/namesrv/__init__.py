"""The name server: brokers tell it which topics they serve, clients ask it where a topic lives.

Read `members` (a broker), `topicqueues` (topics and their groups) with `routeshares` (how many of them are one
host's) and `topiclists` (all of them in an answer), and `routeinfo` (the table: groups, members, leases),
`kvconfig` (settings that operators keep here), `processors` (requests to calls on those two),
`largeregistrations` (those that are entered in steps), `auditedroutes` (what changes are about) and `service`
(the port and the scan for silent brokers).

A name server stores no message, speaks to no other name server and calls no broker: what it knows, brokers
have said within the last two minutes, and a restart forgets it.
"""
