"""Messages as files: exported from a log or a cluster, imported into one.

Read `messagefiles` (NDJSON, CSV, Parquet: what a row means) with `borntimes`, then `export` with `jsonrows` and
`exportplace` (where it may go), and `importing`.

What export writes, import takes, with the same bodies and properties. An import keeps the files' order in
every queue; it counts the messages that brokers find illegal, and stops at any other failure.
"""
