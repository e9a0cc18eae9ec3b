"""Commands on a running cluster: `produce`, `consume`, `topic`, `group`, `cluster`.

Read `clusterrun` (a reactor for as long as one command takes) with `clusteraccount` and `clustertls` (who signs
its requests, what encrypts them), then the command that interests you; `brokerlist` is `hatwisted cluster`,
`audit` compares the logs of two brokers, `completion` is what the shell offers after TAB.

They work through `hatwisted.client`, as a program would.
"""
