"""Schemas of bodies: from the bytes of a topic's messages to typed columns, and what doesn't fit, with the reason.

Read `topicschemas` (what is declared for a topic), `values` (what a decoder of one body is), the formats' decoders
`jsonvalues` with `jsontypes` and `sparktypes`, `avrovalues` and `protovalues`, then `typedcolumns` (a batch of
messages gets its columns).

Every integer becomes a bigint and every float a double, so a field that is widened later needs no other column.
A body that doesn't fit is never bent until it does: it's a misfit, and its row has null.
"""
