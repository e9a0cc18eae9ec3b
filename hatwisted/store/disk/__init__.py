"""The disk and the threads that wait for it.

Begin with `filesystem` (the real one; its interface is `hatwisted.store.interfaces`) with its `sparedescriptors`,
and `worker` (where calls that block are run). `wholefile` replaces a small file in steps that each may fail, and
`configfile` keeps a broker's tables in such files.

Nothing here knows what a log or a message is.
"""
