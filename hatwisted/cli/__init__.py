"""The command `hatwisted`: store folders, clusters and logs as tables, from a terminal.

`main` is the entry point, a `lazygroup`; `log` works on store folders while no broker runs, `cluster` talks
to running ones, `host` is about this machine and its configuration, `pipeline` runs the jobs of
`hatwisted.pipeline`. They share `errors` (exit codes; one line and no traceback), `optionvalues` and
`optiongroup` (options), `output` (for people or as JSON), `progressbar` (a bar for what takes long) and
`storeholder` (who has a store in use). A message as JSON is `clientcore.messagejson`.

A command that writes into a store takes its lock first. None imports a server: a running broker is reached
over its port.
"""
