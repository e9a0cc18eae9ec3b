"""What consumers want of a topic: tags, or an SQL92 expression.

Read `subscriptiondata` (tags and their hashes, out of heartbeats and pulls), then `consumerfilter` (groups'
expressions, kept in `config/consumerFilter.json` and compiled by `hatwisted.sqlfilter`) with
`waitingexpressions` (those that take long), then `bloomfilter` (the bits that RocketMQ's file has for each
group: written so that its brokers can read ours, and not used here).

It chooses messages and never loses one: what can't be evaluated doesn't match, and is skipped, not
deleted.
"""
