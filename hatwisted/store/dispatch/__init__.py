"""From log to queues and index, on master and slave alike.

Begin with `dispatcher` (what records mean to queues and index); `indexing` keeps what the index can't
take yet; `reput` runs it in slices of a reactor's turn;
`recordproof` tells records of the log from bytes that only look like one.

Dispatch goes by the log alone: it never takes a message from the put that wrote it. What came over the link it may
get from memory, once that is in the log.
"""
