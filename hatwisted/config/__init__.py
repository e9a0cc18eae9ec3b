"""Configuration as RocketMQ writes it: `.properties` files, its key names, its defaults.

`properties` reads the syntax, `schema` says which keys have an effect here and what they may hold, `rocketmq`
names the keys that RocketMQ knows and we don't use, `load` puts the three together and `roles` checks what
only a whole configuration can tell. Imports nothing else of ours.
"""
