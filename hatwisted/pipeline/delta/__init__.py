"""Delta tables without Spark: Parquet files by partition, and commits that happen once.

Read `deltatable` and `nestedtypes` (the schema: made, widened, refused), `features` (what users switch on, taken
or refused), `tablefolder`, `names`, `datafiles` with `partitionrows` (rows told apart), and `landedfiles` (files
as they are written, to folders and object stores), `deadletters` (rows that don't fit their topic's schema, in a
table beside), `commits` (a batch takes effect once, and an earlier run can't commit late), `notes` (what commits
say of themselves), `tails`, `reach`, `queuetails` and `landedrows` (what a table has, and where it ends),
`deletions` (what it has no more, though its files do), `fileswap` (files for others), `orphans`, `compaction` and
`vacuuming` (tidying up), `fulldisk` (what is said when there's no room).

A table's files are never changed; of those that no commit mentions, only those of our own runs are removed.
"""
