"""A landed table and what is still only in the log, as one: no row missing, none twice.

Read `logtail` (what of a log a version of a table lacks) and `unionread` (both together, for Spark and as Arrow).
"""
