"""What is done with logs as tables: plain functions with typed arguments that return results.

A room per job: `land` (a log as a Delta table), `union` (the table and what is only in the log), `latest` (the
last message of each key), `audit` (are the copies the same), `reindex` (queues and index from the log), `report`
(what was stored, when, how late), `messages` (export and import). The rest is what several share: `workertasks`
and `sparkactions` (running work with progress), `storecopy` and `locallog` (a store to read), `rangewalk` and
`rangecompare` with `recordfields` (parts of a log), `messageselection`, `columnexpressions`, `htmlpage`,
`ownplace` (where may be written).

A job prints nothing and prompts for nothing: `cli.pipeline` does. None changes the store that it reads.
"""
