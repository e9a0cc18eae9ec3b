"""`make run`: a name server, a SYNC master and a slave as real processes, and a real input sent through them.

Read `scenario` (the order of events), then what it uses: `inputs` reads the messages, `traffic` makes some,
`cluster` runs the three processes, `producer` and `consumer` talk to them as any client would, `monitor` asks
for their state, `logcompare` compares the two commit logs, `pipelineprocess` lets another process
(`pipelinework`) land, audit and report them with Spark, and `screen` shows it all.

The demo checks what it claims: if a byte differs, it ends with an error.
"""
