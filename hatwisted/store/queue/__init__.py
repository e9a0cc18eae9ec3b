"""Consume queues: which message of a topic's queue lies where in the log.

Begin with `consumequeue` (one queue, with `queuescan`) and `queuetable` (all of them). `queuewriter` syncs
them, `queueremoval` takes a topic's out of service and `deletedqueues` remembers that. `reading` collects the
messages of a pull, `lookup` finds offsets by time.

Queues are derived: what they say can be rebuilt from the log, and nothing here decides what the log holds.
"""
