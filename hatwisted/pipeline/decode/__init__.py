"""Commit logs into Arrow record batches, by columns, with numpy and pyarrow.

Read `schema` (the columns), `storefolder` (which files, where the log ends, how it is split), `logbytes` and
`logwindow` (the bytes), `recordsearch` and `records` (where records lie), `columns` with `bodies`, `hosts`,
`propertyareas` and `ragged` (parts of records into arrays), `conditions` (rows that need not exist),
`batches` and `reader` (all of it).

No Spark, no Twisted, no sockets. No loop over records in Python, and no column that nobody asked for.
"""
