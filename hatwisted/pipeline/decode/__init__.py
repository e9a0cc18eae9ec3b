"""Commit logs into Arrow record batches, by columns, with numpy and pyarrow.

Read `arrowschema` (the columns), `storefolder` (which files, where the log ends, how it is split) with
`endprobe`, `fallingtimes` and `queueentries` (what tells leftovers of a cut), `storebytes` with `azurefiles`,
`googlefiles`, `hadoopfiles` and `filebytes` (the bytes), `columns` with `bodies`, `hosttext`, `propertycolumns`
or, compiled, `plainproperties`, and `ragged` (parts of records into arrays), `conditions` (rows that need not
exist), `batches` and `logreader` (all of it), `decode` (records that are in memory already).
`hatwisted.logcodec` finds the records.

No Spark, no Twisted, no sockets. No loop over records in Python, and no column that wasn't requested.
"""
