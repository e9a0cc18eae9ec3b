"""`make run`: a name server, a SYNC master and a slave as real processes, and a real input sent through them.

`inputs` reads the messages, `cluster` runs the three processes, `producer` and `consumer` talk to them as any
client would, `logcompare` holds the two commit logs against each other, `pipelineprocess` lets another process
(`pipelinework`) land, audit and report them with Spark, `screen` shows it all and `scenario` is the order of
events.
"""
