"""Commands about this host and its files.

`conf` shows samples, checks a file and explains keys; `doctor` says whether a broker can run here (`hostfacts`
looks, `neighbours` asks, `hatwisted.health.surroundings` judges); `up` runs a whole group in one terminal, for
trying out, as `groupplan` has it: `localgroup` starts, shows and ends its servers, each a `serverprocess` on a
`leash`.
"""
