"""RocketMQ clusters read over the network, on the blocking client (`hatwisted.blocking`): no Twisted, no Spark.

Tasks of a Spark job run in processes of their own, one range of one queue each, which is what a blocking
socket is good at. Start with `clusterreader.ClusterReader`.

It uses `positions` (where queues begin and end) and `recordmarks` (which record is where), both by
`groupquestions`; and `queuepull` with `pullanswer` (one range of one queue, whole or not at all). `batchproducer`
sends in the order of each queue. `rowsending` sends a table's rows: `rowmessages` makes messages of them, with
`rowcolumns` (which columns are what) and `rowkeys` (keys that are the same again).
"""
