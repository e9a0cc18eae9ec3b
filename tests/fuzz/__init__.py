"""Every decoder as a function of bytes that may raise that decoder's own error and nothing else.

Begin with `target` and `targets` (all of them). They are in `wiretargets` (what peers send), `signedtargets` (and
who is let in), `filetargets` (what lies under config/, and what people type), `deltatargets`, `logtargets` (the
log, queues and index), `kerneltargets` (compiled code beside Python's), `twintargets` (its parts that work on what
has been decoded), `pagetargets` (the ports of figures and of the live page) and `servertargets` (a whole broker
behind its port). `corpus` has a file for each, with inputs that reach all that was ever reached, minimised;
`mutation` makes others of them. `make fuzz` looks for new ones, led by coverage (tools/fuzz.py), and
tools/fuzzmeasure.py says what 64 KiB cost, of a server its `turns`; the unit layer replays these. `sessions` are
strangers who talk to whole servers over sockets.
"""
