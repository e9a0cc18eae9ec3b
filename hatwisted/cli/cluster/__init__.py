"""Commands on a running cluster: `produce`, `consume`, `topic`, `group`, `cluster`, `status`.

Read `clusterrun` (a reactor for as long as one command takes) with `namesrvoption` (which cluster),
`clusteraccount` and `clustertls` (who signs its requests, what encrypts them), `mistakes` (what is said of
errors) and `remarks` (what brokers add), then the command that interests you; `consume` reads a
`readingrange` and prints by a `messageformat`; `group` has its moves in `groupmoves` and its lag in
`grouplag`; `brokerlist` is `hatwisted cluster`, `broker` and `msg` are about single ones, `audit` compares
the logs of two brokers, `status` shows how all of them are (`looking` asks, `hatwisted.health` judges,
`statusscreen` draws, `pauses` are between two looks), `attach` makes a slave of a running master on this host
(`slaveplan` says how it is configured, `newslave` starts it, `copyprogress` shows it copy, `listing` asks who
lists it), `completion` is what the shell offers after TAB.

They work through `hatwisted.client`, as a program would.
"""
