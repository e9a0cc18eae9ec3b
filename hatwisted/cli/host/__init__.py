"""Commands about this host and its files.

`conf` shows samples, checks a file and explains keys; `up` runs a whole group in one terminal, for trying out, as
`groupplan` has it.
"""
