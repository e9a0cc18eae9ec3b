"""Accounts: RocketMQ's ACL 1.0, from the files to the answer that a stranger gets.

Read `permissions` (what an account may do with a topic or a group) and `addresspattern` (who needs no
signature), `account` (one account of a file), `aclfile` (a whole file, read and changed as text), `accounts`
(all of them: who may do what), `needs` (what each request code asks for), then `aclfiles` (the folder,
watched) and `requestguard`, which a server asks about each request before anybody else sees it, and
`failedlogins` (how often keys may be tried). `changes` are the requests of administrators, `adminguard` says
from where they are taken, `audittrail` writes down who has changed what, `rateguard` says how often anybody
may ask; what these guards have in common is in `refusals`. `entrance` puts all of them before a server's
processors.

It knows requests only by their codes and fields, and never says in a log, an error or an answer what a secret is.
"""
