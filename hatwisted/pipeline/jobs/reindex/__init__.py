"""Rebuilding consume queues and index from the commit log alone, in parallel.

Read `logcodec.queueplan` (what a rebuild decides), then `reindexing` (the job), `twopass` (its two passes),
`spool` (what the first puts aside), `queuefiles`, `indexfiles` (what the second writes) and `newfolders` (built
aside, put in place by a rename). `hatwisted log index` takes the same two passes in its own process.

Half a folder is never visible, and what is there is replaced only if the caller says so.
"""
