"""`hatwisted log`: looking at, checking and repairing a store folder, offline.

Read `storesizes` (finding one's way in a folder that any broker has written) and `logwalk` (the whole log,
over damage as well). Looking: `dump` with `recordformat`. Checking: `check` with `queuecheck`, `indexcheck`,
`findings` and `checktext`. Two copies: `compare`, `divergence`. Mending: `repair`, `indexcommand`. `logcommand` is
what the commands share.

Only repair, cut and index write; they say what they would do before they do it, and keep what they cut off.
"""
