"""`python -m bench`: hatwisted and Apache RocketMQ side by side on the same machine, conf files and load.

Each row of the table is a function in a small module here; `loadgen` is the load generator, a process of its
own.
"""
