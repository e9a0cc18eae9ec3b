"""Commands about this host and its files.

`conf` shows samples, checks a file and explains keys.
"""
