"""The last message of each key: a landed table's rows as a table that changes, kept up by merges.

Read `latesttable` (the job), `lastrows` (which row is a key's last one) and `keyedtable` (what is merged into).
"""
