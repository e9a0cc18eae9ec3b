"""Rebuilding consume queues and index from the commit log alone, in parallel.

Read `reindexing` (the job), `twopass` (its two passes), `spool` (what the first puts aside), `queueplan` with
`queuefiles`, `indexfiles` (what the second writes) and `newfolders` (built aside, put in place by a rename).

Nobody ever sees half a folder, and what is there is replaced only if the caller says so.
"""
