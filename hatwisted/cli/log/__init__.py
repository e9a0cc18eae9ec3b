"""`hatwisted log`: inspecting, checking and repairing a store folder, offline.

Start with `storesizes` (the files of a folder that any broker may have written); all commands read the log
with `hatwisted.logcodec.logwalk`, which goes on after damage. Inspecting: `dump` with `recordformat`. Checking:
`check` with `queuecheck`, `indexcheck`, `findings` and `checktext`. Comparing two copies: `compare`,
`divergence`. Repairing: `repair`, `indexcommand`. `loggroup` declares the commands, `logcommand` is what
they share.

Only repair, cut and index write. Repair and cut show their plan first, and keep what they remove.
"""
