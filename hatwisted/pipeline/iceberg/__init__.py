"""Iceberg tables without Spark, by pyiceberg and a catalog: files by partition, and snapshots that happen once.

Read `catalogs` (a table's name; made, widened, refused) with `columntypes` and `arrowtypes` (columns as Arrow's
usual types), `icebergfiles` (rows into data files) with `openfiles` (one for each partition), `fileids` (their
names) and `nulls` (which stay), `snapshots` with `oncetransaction` (what a snapshot says of the logs in it; a
batch takes effect once, and an earlier run can't commit late), `queuenotes` (the same of a cluster's queues) and
`numberedbatches` (which of Spark's batches are there), `landedfiles` (a batch's files) with `tasktables` (written
by tasks elsewhere) and `deadletters` (rows that don't fit their topic's schema, in a table beside), `upkeep`
(small files and old snapshots) and `orphans` (files that nothing mentions).
"""
