"""What a server shows of itself over HTTP: figures for Prometheus, and whether it's well.

Read `families` first (what a source of figures is), then the sources: `storefigures` (puts, log, disk),
`hafigures` (links, and a slave's own), `trafficfigures` (topics, consumers and their lag, under RocketMQ's names;
`tally` adds up what isn't shown by itself), `brokerfigures` (who the broker is, and what its start found),
`namesrvfigures` (a name server), `processfigures` (the process, its clients, certificates) and `guardfigures` (who
isn't let in). `offsethistory` turns bytes of lag into seconds;
`linkwatch` feeds it, and asks a slave's master how long its log is. `exposition` makes the text that is scraped,
in steps; `health` says what is wrong; `web` serves these.

The live page: `hour` and `eventfeed` (what has been), `groupwatch` (the others of the group, by a `looking` that
the command line has, too), `livestate` (all that is shown), `chart` (lines as SVG) and `livepage`. `service`
runs the ports.

Nothing here is called by puts or pulls: what is counted there is counted anyway, and read here when somebody asks.
"""
