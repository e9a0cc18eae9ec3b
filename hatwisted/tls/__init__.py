"""TLS on Twisted: certificates, what a connection is encrypted with, and ports that speak it.

Read `certificates` (PEM files become keys and certificates, or an error that names the file), `certificatefiles`
(those of a server, looked at again and again), `contexts` (which versions, ciphers and peers are accepted),
`handshakes` (how many may be under way, and for how long), `tlslayer` (one connection's TLS), then the two ends:
`tlsport` (a port that serves TLS, and plain connections beside it if it may) and `tlsconnecting`.

It doesn't know what is said on a connection. The client's `Tls`, which programs give, is `clientcore`'s, because
sockets without Twisted take it too.
"""
