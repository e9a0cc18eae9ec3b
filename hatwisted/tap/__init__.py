"""The twistd subcommands: options, one-line errors before the reactor runs, and the services put together.

`hamaster`, `haslave` and `hanamesrv` are what twistd loads; `startup` and `ports` are what they share;
`compose` builds the services from a configuration.
"""
