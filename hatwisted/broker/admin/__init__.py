"""What operators and their tools ask of a broker.

`operations` (topics, groups, messages, configuration) and `consumeradmin` (what concerns connected clients)
put the rest together, so that a new command has one place to be added. Topics: `topicadmin`, `topicstats`.
Groups: `groupadmin`, `consumestats`, `resetoffset`, `connections`, `runninginfo`. The broker: `runtimeinfo`,
`brokerstats`, `brokerconfig`, `hastatus`. Messages: `messagequery`. `adminprocessor` has the tables and
offsets that slaves and consumers ask for.

Nothing here lies on the way of a message. Every answer has a limit, so that a large broker doesn't stop
serving to describe itself.
"""
