"""The twistd subcommands: options, one-line errors before the reactor runs, and the services put together.

`hamaster`, `haslave` and `hanamesrv` are what twistd loads; `startup` and `ports` are what they share;
`realparts` is what a node gets from this process. The nodes themselves are put together in `hatwisted.assembly`.
"""
