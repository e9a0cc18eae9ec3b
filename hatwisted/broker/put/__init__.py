"""From an appended message to its answer, and messages that the broker itself puts.

Read `putack` (a put waits for the disk, for a slave, for both, or for nothing) with `verdicts` (what the two have
said of a read's puts so far), then `innerput` (due messages, messages sent back and the records of transactions go
the same way as a send).

`responsecode` turns a status into the code of an answer, `sendstate` says whether clients may have anything stored
at present, `missingcopies` logs what no slave has, `newtopics` holds answers about messages that have made their
topic until that is kept, `telling` keeps one answer's failure from the others.

It never answers OK before flush and replication have reached the put's end, as far as the configuration asks
for them.
"""
