"""The command `hatwisted`: store folders, clusters and logs as tables, from a terminal.

`main` is the entry point, a `lazygroup`; `log` works on store folders while no broker runs, `cluster` talks
to running ones, `host` is about this machine and its configuration, `pipeline` runs the jobs of
`hatwisted.pipeline`. They share `errors` (exit codes; one line and no traceback), `optionvalues` and
`optiongroup` (options), `output` (for people or as JSON) and `progressbar` (a bar for what
takes long), `messagejson` (a message as JSON), `storeholder` (who has a store in use).

A command that writes into a store takes its lock first. None imports a server: a running broker is reached
over its port.
"""
