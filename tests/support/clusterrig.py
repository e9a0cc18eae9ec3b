"""A cluster in this process for the client's tests: name server and masters as twistd would start them."""

from functools import partial
from pathlib import Path

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred

from hatwisted.assembly.broker import build_broker
from hatwisted.client.cluster import Cluster
from hatwisted.config.load import load_broker_config
from hatwisted.config.schema import NamesrvConfig
from hatwisted.namesrv.service import NameServerPort, NameServerService
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from tests.support.loopback import HOST, broker_port
from tests.support.memorynode import MemoryNodes
from tests.support.passingtime import pass_until
from tests.support.patience import patient

SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20 * 1000,
    "messageIndexEnable": False,
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "maxMessageSize": 500_000,
}


def asynchronous(test):
    """A coroutine as a test; time passes on the clock of the test's rig, if it has one in memory."""

    def run(self):
        running = Deferred.fromCoroutine(test(self))
        return self.rig.result(running)

    run.__name__ = test.__name__
    return run


class MemoryRig:
    """A host in memory, and the clock that turns it."""

    def __init__(self, case):
        self.case = case
        self.nodes = MemoryNodes(case)
        self.clock = self.nodes.clock
        self.network = self.nodes.network.host("127.0.0.1")

    def result(self, waited):
        """`waited`, once it has fired."""
        return pass_until(self.clock, waited)

    def add_cleanup(self, work, *args):
        """At the test's end; time passes until it's done."""
        self.case.addCleanup(lambda: self.result(maybeDeferred(work, *args)))

    def until(self, happened):
        """Let time pass until `happened()`."""
        loop = task.LoopingCall(lambda: happened() and loop.stop())
        loop.clock = self.clock
        return loop.start(0.005)


class ClusterRig(MemoryRig):
    """`start` it; `new_cluster` gives a client.

    - masters: how many
    - parts, port: the nodes' surroundings, on the reactor, and what gives a broker its port; if None, they are in
      memory
    """

    def __init__(self, case, masters=1, parts=None, port=broker_port, **settings):
        self.on_reactor = parts is not None
        if parts is None:
            super().__init__(case)
            parts = self.nodes.parts(self.network.address)
        else:
            self.case, self.clock, self.network = case, reactor, parts.connecting
        self.parts = parts
        self.port = port
        self.folder = Path(case.mktemp()).absolute()
        self.folder.mkdir(parents=True)
        self.masters = masters
        self.settings = SETTINGS | settings
        self.brokers = {}

    def result(self, waited):
        """`waited`; in memory, once it has fired."""
        return waited if self.on_reactor else super().result(waited)

    def start(self):
        return self.result(self._start())

    @inlineCallbacks
    def _start(self):
        fs, worker = PosixFileSystem(), InlineWorker()
        config = NamesrvConfig(listen_port=0, kv_config_path=str(self.folder / "kv.json"))
        listen = partial(self.parts.listening.listen, 0, interface="127.0.0.1")
        self.names = NameServerService(config, self.clock, fs, worker, NameServerPort(listen))
        self.names.startService()
        self.add_cleanup(self.names.stopService)
        for number in range(self.masters):
            name = f"broker-{'abc'[number]}"
            yield self.add_broker(name, name)

    @inlineCallbacks
    def add_broker(self, key, name, role="ASYNC_MASTER", **more):
        port = self.port()
        root = self.folder / key
        settings = self.settings | more
        settings |= {
            "brokerName": name,
            "brokerRole": role,
            "brokerId": 1 if role == "SLAVE" else 0,
            "listenPort": port,
            "namesrvAddr": self.names.address,
            "storePathRootDir": root,
            "storePathCommitLog": root / "commitlog",
        }
        path = self.folder / f"{key}.conf"
        text = "".join(f"{name}={_text(value)}\n" for name, value in settings.items())
        path.write_text(text)
        config = load_broker_config(str(path), host=HOST).config
        service = build_broker(config, self.parts)
        service.startService()
        self.brokers[key] = service
        service.address = f"127.0.0.1:{port}"
        self.add_cleanup(self.stop_broker, key)
        yield self.until(lambda: service.address in str(self.names.routes.cluster_info()))

    def stop_broker(self, key):
        service = self.brokers.pop(key, None)
        return None if service is None else service.stopService()

    def until_dispatched(self):
        """Until all that the brokers' logs hold is in its queues: an answer to a send doesn't say so yet."""
        stores = [service.parts.store for service in self.brokers.values()]
        return self.until(lambda: not any(store.dispatch_behind_bytes for store in stores))

    def new_cluster(self, clock=None):
        """clock: another one than the nodes'."""
        cluster = Cluster(clock or self.clock, self.names.address, connecting=self.network)
        if self.on_reactor:
            patient(cluster)
        self.add_cleanup(cluster.close)
        return cluster


def _text(value):
    return str(value).lower() if isinstance(value, bool) else value
