"""Pulls: reading a queue, and waiting for what isn't there yet.

Read `pullmessage` (PULL_MESSAGE on master and slave: checks, filter, read, answer), then `pullhold` (a pull
that found nothing is held until its queue grows or its time is over: long polling) and `pullturns` (in which order
held ones are looked at).

Nothing is decoded to be delivered: an answer is the log's own bytes. No pull is held for longer than its
client asks, and none is answered before its client has read the previous answers.
"""
