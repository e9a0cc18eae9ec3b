"""What operators and their tools ask of a broker.

`consumeradmin` puts together what concerns connected clients; the other processors are registered where a broker
is assembled (`hatwisted.assembly.broker`). Topics: `topicadmin`, `topicstats`. Groups: `groupadmin`,
`consumestats`, `progresswalk`, `resetoffset`, `connections`, `runninginfo`. The broker: `runtimeinfo`,
`brokerstats`, `brokerconfig`, `rereadconfig`, `hastatus`, `acladmin`. Messages: `messagequery`. The log:
`logbytes`. `auditedstate` says for the audit what a change is about. `adminprocessor` has the tables and offsets
that slaves and consumers ask for.

Nothing here lies on the way of a message. Every answer has a limit, so that a large broker doesn't stop
serving to describe itself.
"""
