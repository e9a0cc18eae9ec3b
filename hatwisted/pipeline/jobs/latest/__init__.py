"""The last message of each key: a landed table's rows as a table that changes, kept up by merges.

Read `latesttable` (the job), `lastrows` (which row is a key's last one), `mergednotes` (what the job needs of the
two tables, and what a keyed one says of itself); then `deltasource` and `icebergsource` (rows of a landed table),
and `deltakeyed` (`deltachange`) and `icebergkeyed`: what is merged into. `keymatches` finds the rows that are
replaced.
"""
