"""A broker's files: the commit log, what is built from it, and what keeps it whole.

Begin with `interfaces` (disk, threads and log as the rest sees them) and `messagestore` (the rooms put
together, with `storeoptions`). The rooms, from the bottom: `disk` (files, threads), `log` (append, flush),
`queue` and `index` (where messages are), `dispatch` (fills these from the log), `lifecycle` (recovery, locks,
retention). `stats` are the figures.

The store opens no socket and knows no request, and while it serves it never calls fsync in the reactor's
thread.
"""
