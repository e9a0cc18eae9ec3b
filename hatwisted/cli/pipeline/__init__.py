"""`hatwisted pipeline`: the jobs on logs as tables.

Read `commands`, `landcommand`, `deadlettercommand` and `latestcommand` (options and what they mean) with
`sourceoptions` (which messages), `landingoptions` and `account` (`--credentials`, `--tls`), `checks` (what is
refused before Spark starts), `sparkrun` (a session, a bar, errors as one line), `joblines` (what a service's log
gets in place of a bar) and `pipelinetext` (what a job's result says to people).

The work is done in `hatwisted.pipeline.jobs`; Spark is imported only once a command needs it.
"""
