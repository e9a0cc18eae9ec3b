"""The index: messages by key and time.

Begin with `indexfile` (one file, a hash table over pages of the disk); `indexservice` fills the newest and asks
them all, `nextindexfile` makes one ahead, `indexshape` finds how many slots and items a file has.

Like the queues, the index can be rebuilt from the log.
"""
