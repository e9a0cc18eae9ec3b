"""Iceberg tables without Spark, by pyiceberg and a catalog: files by partition, and snapshots that happen once.

Read `catalogs` (a table's name; made, widened, refused), `arrowtypes` (its columns as Arrow's usual types),
`icebergfiles` (rows into data files), `snapshots`
(what a snapshot says of the logs in it; a batch takes effect once, and an earlier run can't commit late),
`queuenotes` (the same of a cluster's queues),
`upkeep` (small files and old snapshots) and `orphans` (files that nothing mentions).
"""
