"""The twistd subcommands: options, one-line errors before the reactor runs, and the services put together.

`hamaster`, `haslave` and `hanamesrv` are what twistd loads; `startup` and `claimedports` are what they share;
`realparts` is what a node gets from this process, `steadytime` its clock, `heap` the memory it keeps, `idlepoll`
has its event loop keep polling before it sleeps;
`descriptors` reserves some for files;
`signals` are those it takes, `supervisor` is who has started it and watches it (systemd), `startwatch` shows the
operator what a slave's first seconds bring; `serverlog` is where its log goes; `printablelog` keeps what others
have named from writing lines of its own into the log; `storecheck` looks at the store before the fork,
`readahead` has its queues' files read several at a time, `legible` looks at who may read secrets,
`embedded` is the name server that a master brings along, `figures` what shows a broker's. The nodes themselves
are put together in `hatwisted.assembly`.
"""
