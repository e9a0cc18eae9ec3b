"""What figures of a cluster mean: who is well, who isn't, and what its operator can do about it. No I/O.

`javatext` reads the numbers in RocketMQ's words for people. `figures` are what brokers of any make say of
themselves (codes 26, 28 and 907), taken twice with some time between; `judgement` makes findings of them, each
with one line of advice, `readiness` of what only the broker itself knows, `words` put how it is into a few.
`events` are what happened between two looks. `surroundings` judges the host that a broker is to run on. `hanging`
is a line for a narrow terminal.

Who asks for the figures is no concern of this room: `hatwisted status` and the live page show the same.
"""
