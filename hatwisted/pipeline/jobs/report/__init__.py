"""Reporting: what was stored when, how big, how late, and how far the slaves have come.

Read `reporting` (the job), `reportfigures` (records into one small cube), `reportsummary` (the cube as
values), `reportplots` with `plotsheets` and `plotstyle`, and `reportpage`.

Everything shown comes from the cube, so that plots and tables can't disagree.
"""
