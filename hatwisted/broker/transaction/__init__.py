"""Transactions: half messages, their end, and the check of those that weren't ended.

Read `halfmessages` (the records, as pure functions), `endtransaction` (a producer commits or rolls back) and
`transactioncheck` (producers are asked about what is undecided).

What is known about a transaction lies in the log alone, so that a RocketMQ broker can go on with our store
and we with its. No half message is ever shown to a consumer, and none is delayed.
"""
