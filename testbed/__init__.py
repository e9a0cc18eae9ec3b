"""Servers for tests and benchmarks: hatwisted and RocketMQ as processes, a wire client and a reader of stores.

The wire client and the reader share no line with hatwisted's own codecs: a check that used those would prove them
with themselves.
"""
