"""Configuration as RocketMQ writes it: `.properties` files, its key names, its defaults.

Read `schema` (every key with an effect, its default and range), `accesskeys` (those of who is let in) and
`tlskeys` (those of TLS), `values` (kinds of values), `javaproperties` (the syntax of the file), `rocketmqkeys`
(keys that RocketMQ knows and that have no effect here), `askedkeys` (by which protection is asked for), `keydocs`
(what each key means, for people), `host` (defaults that depend on the machine), `load` (all of these put
together), `roles` (checks of a whole configuration), `pairing` (of a slave's and its master's together),
`protection` (what keeps a server from starting unprotected by mistake), `live` (reading and changing it while a
server runs) and `changing` (which keys may be changed then, and which of them count at once).

Nothing here opens more than the one file and RocketMQ's file of TLS properties, and every error is one line that
says what is allowed.
"""
