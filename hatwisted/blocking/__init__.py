"""The client on plain blocking sockets, for one thread: what Spark's tasks and scripts use.

`settings` says which cluster, as whom and how long to wait; `connection` is one socket, encrypted if
`clientcore.tls` says how, `links` those of a client, `routes` what all name servers know together. `driver`
runs the logic of `clientcore` on them, and `cluster.Cluster` is the entry point: a producer and administration
whose methods return when it's done. `closing` makes both usable in `with`.

Never here: a loop that runs in the background, so no consumer groups; the pipeline reads queues
by range (`hatwisted.pipeline.remote`).
"""

from hatwisted.blocking.cluster import Admin, Cluster, Producer
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore import api
from hatwisted.clientcore.api import *  # noqa: F403

__all__ = ["Admin", "Cluster", "ClusterSettings", "Producer"]
__all__ += api.__all__
