"""The broker: request processors over a store and its replication.

A room per subject, each importing only from those that follow it: `node` (the service), `admin` (what operators
ask), `send`, `transaction` and `delay`, `pull` and `put`, `consumer` (clients, groups, offsets), `filter` and
`topic`. Beside them are `tables` (the tables with their files under `config/`), `tabletext` (their text),
`identity` and `role` (who this broker is, and what it is at present) `requests` (refusals, which all rooms
share) and `namesizes` (what names take).

Follow a message: send/sendmessage, put/putack, pull/pullmessage, pull/pullhold. A processor takes a
connection and requests and gives answers or Deferreds of answers; which code it answers to, it says in
`register_on`.

No room opens a file, a port or a connection by itself, or asks a clock that it wasn't given.
"""
