"""Work that comes back: at an interval, or after a pause of its own, and what of it reaches the log.

Read `periodic` first (a loop at an interval), then `timer` (one call that sets itself again), `steps` (long work
in slices) on `rotation` (whose turn it is), `timeshare` (work that takes no more than a share of the time),
`ratelimit` (how much each source may have in a second) and `throttle` (which of many equal log lines are written;
`guard` is how a failed turn gets there). `pauses` says how long until the next try, `histogram` counts how long
something took, `garbage` keeps Python's looks for cycles short.
RocketMQ's services are threads whose loop catches whatever a turn raises; Twisted's LoopingCall ends at the first
exception, and a `callLater` that sets itself again isn't set. So every loop of a server goes through this room: a
turn that fails is logged with its traceback, and the next one comes.

Below every room with a clock; it never reads a clock of its own, and knows nothing of stores, links or
requests.
"""
