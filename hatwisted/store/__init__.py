"""The replicated commit log and what is built from it: files, flush, queues, index, recovery. No sockets."""
