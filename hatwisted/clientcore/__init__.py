"""The client's logic, without a loop, a socket or a clock: what Twisted's, asyncio's and the blocking client
share.

Values first: `message`, `sending` (messages as requests, answers as results), `tries`, `rounds` (tries at
several servers), `selection`, `routes`, `pullprogress`, `processqueue`, `allocation`, `subscription`. On them
coroutines that await nothing but `tasks.Waiter`s: `producer`, `queuereader` -> `consumeservice` -> `assignment`
-> `consumer`, `admin` on `lookups` (single messages and brokers), `survey` (all brokers at once). `clusterlink`
is on top, `consumerstate` and `api` are what programs of every loop see, `session` (one identity among the
brokers) under all its parts, and `driver` says what a loop has to give; `calls` is what its connections have in
common, `process` what it takes from its process. `credentials` sign requests, and `credentialfile` finds them;
`tls` says how connections are encrypted, `tlsfile` where a user says it.

`messagejson` is a message as a line of JSON, whoever writes or reads it.

What they use: `options` (what a program may set), `driver`'s and brokers' words (`address`, `command`,
`answers`, `errors`), `accumulator`, `sendwindow`, `compression` and `transactions` for sending;
`membership`, `consumefrom`, `offsets`, `queuelocks`, `delivery`, `messagestream` and `sendback` for
consuming; `consumerrequests`, `runninginfo` and `consumerstats` for what brokers and operators ask.

Never here: Twisted, asyncio, sockets, the time, chance of its own. Imports `wire` only.
"""
