"""A landed table and what is still only in the log, as one: no row missing, none twice.

Read `landedversion` (a version of a table; `deltaversion`, `icebergversion`), `sparkfiles` (how Spark finds its
files), `logtail` (what of a log it lacks) and `unionread` (both together, for Spark and as Arrow).
"""
