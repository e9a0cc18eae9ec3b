"""What clients send: messages, batches, replies, and messages that they couldn't consume.

Read `sendmessage` (one read's sends become puts), `admission` (is it allowed, and where is it stored),
`sentproperties` (the properties as the log is to have them), `sendback` with `deadletter` (another try, or
the dead letters of the group) and `replymessage` (request-reply, which is never stored).

A send is refused before the append or not at all: what is in the log is answered by `put.putack`.
"""
