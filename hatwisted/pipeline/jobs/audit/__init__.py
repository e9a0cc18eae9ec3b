"""Auditing: are the copies of a broker's log the same, and intact?

Read `auditing` (the job), `audittasks` (what a worker is given), `tablecopy` and `tablecompare` (a landed
table as one more copy), `tablefiles` and `icebergfiles` (its files and how their rows are read), then
`auditresult` (its outcome) and `auditreport` (the page).

Bytes decide, records explain: copies are compared byte for byte, and taken apart only where they differ. An
audit changes nothing.
"""
