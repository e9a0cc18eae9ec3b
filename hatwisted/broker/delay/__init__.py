"""Delayed messages: stored under their level, delivered when they are due.

Read `delayrouting` (where a message with a delay level is stored), `schedule` (one delivery per level, in
slices) and `delayoffsets` (how far each has come: `config/delayOffset.json`).

A crash never loses a delayed message; it may deliver one twice. A level that can't deliver waits and tries
again, and what can't be delivered at all is logged and skipped, so that it holds nothing up.
"""
