"""Rebuilding consume queues and index from the commit log alone, in parallel.

Read `logcodec.queueplan` (what a rebuild decides), then `reindexing` (the job), `twopass` (its two passes),
`spool` (what the first leaves for the second), `queuefiles`, `indexfiles` (what the second writes) and
`newfolders` (built elsewhere, put in place by a rename). `hatwisted log index` takes the same two passes in
its own process.

A half-built folder is never visible, and existing ones are replaced only if the caller says so.
"""
