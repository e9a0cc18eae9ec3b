"""RocketMQ's SQL92 filter expressions as a pure language: text in, a test of a message's properties out.

What rocketmq-filter 4.9.7 accepts is accepted, with the same outcome for every message; what it refuses is
refused, with the position of the mistake. Read `tree` (what an expression can express), `lexer` and `parser` (text
to tree), `expression` (tree to a compiled test, and the cache of those), `javanumbers` (how Java compares).

Nothing here knows about brokers, records or Twisted.
"""
