"""A broker for tests: a whole node but for its role, in a temporary folder, on a network in memory.

It does what brokers of both roles do, and what a test puts into its `table` besides. Its time is a `task.Clock`:
what was put is dispatched when the test turns it.
"""

import json
from datetime import datetime
from pathlib import Path
from random import Random

from twisted.internet import reactor, task
from twisted.internet.defer import inlineCallbacks, succeed
from twisted.internet.endpoints import connectProtocol

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.parts import Parts
from hatwisted.broker.node.masteraddress import KnownMaster
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.record import decode_record
from hatwisted.wire.remoting import RemotingCommand
from tests.support.wireclient import WireClient

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
PORT = 10911
NOW = 1_795_221_957.0


def unit_parts(clock, host, memory_bytes=8 << 30, boot=""):
    """A node's parts for tests: time by `clock`, a memory network's `host`, the real disk at once."""
    return Parts(
        clock=clock,
        local_time=datetime.fromtimestamp,
        file_system=PosixFileSystem(),
        make_worker=lambda name, threads: InlineWorker(),
        listening=host,
        connecting=host,
        resolve=lambda name: bytes((127, 0, 0, 1)),
        random=Random(1),
        process_id=lambda: 77,
        boot=boot,
        memory_bytes=memory_bytes,
    )


class NoRole:
    """What a node does besides what all do: nothing, but for a master's look at consumers' offsets."""

    def __init__(self, node, parts):
        self.node = node
        self.processors = ProcessorTable()
        if not node.role.slave:
            node.offset_sync.register_join_on(self.processors)

    def start(self):
        if not self.node.role.slave:
            self.node.consumers.progress.stale.begin(complete=self.node.last_run.serve(master=True))

    def stop_taking(self):
        pass

    def stop(self):
        return succeed(None)


class BrokerRig:
    """Verbs: `put`, `turn`, `ask`, `pull`. case: the test, for its clean-ups and temporary folder; network: the
    one to be on, at `port`; slow_distance: see PullOptions; options: fields of BrokerConfig."""

    def __init__(
        self,
        case,
        clock=None,
        slave=False,
        root=None,
        memory_bytes=8 << 30,
        slow_distance=None,
        index=False,
        delay_levels=(),
        network=None,
        port=PORT,
        boot="",
        **options,
    ):
        self.case = case
        self.clock = clock or task.Clock()
        if clock is None:
            self.clock.advance(NOW)
        self.network = network or MemoryNetwork(reactor)
        self.host = self.network.host("127.0.0.1")
        self.root = root or str(Path(case.mktemp()).absolute())
        if slow_distance is not None:
            memory_bytes = 100 * max(slow_distance, 1)
            options["access_message_in_memory_max_ratio"] = 1 if slow_distance else 0
        config = BrokerConfig(
            broker_role=BrokerRole.SLAVE if slave else BrokerRole.ASYNC_MASTER,
            broker_id=int(slave),
            broker_name="broker-a",
            broker_ip1="127.0.0.1",
            broker_ip2="127.0.0.1",
            bind_address="127.0.0.1",
            listen_port=port,
            store_path_root_dir=self.root,
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20 * 1000,
            message_index_enable=index,
            max_hash_slot_num=1000,
            max_index_num=1000,
            message_delay_level=" ".join(f"{level // 1000}s" for level in delay_levels),
            **options,
        )
        self.node = build_broker(config, unit_parts(self.clock, self.host, memory_bytes, boot), NoRole)
        parts = self.parts = self.node.parts
        parts.master.learn(KnownMaster("127.0.0.1:1", "127.0.0.1:2"))
        self.store, self.tables, self.identity = parts.store, parts.tables, parts.identity
        self.consumers, self.pulls, self.hold = parts.consumers, parts.pulls, parts.hold
        self.admin, self.runtime, self.config = parts.consumer_admin, parts.runtime, parts.config
        self.factory = self.node._factories[0]
        self.table = self.factory.table
        self.node.startService()
        self.address = f"127.0.0.1:{port}"
        self.client = self.new_client()
        case.addCleanup(self.stop)

    @inlineCallbacks
    def stop(self):
        stopped = self.node.stopService()
        yield self.until(lambda: stopped.called)
        yield stopped

    def new_client(self, on_request=lambda address, request: None):
        client = RemotingClient(self.host, self.clock, on_request)
        self.case.addCleanup(client.close)
        return client

    # ---- messages

    def put(self, topic="T", queue_id=0, body=b"body", tag=None, count=1):
        """Append messages and dispatch them."""
        self.tables.topics.for_send(topic, "TBW102", 4)
        properties = b"" if tag is None else b"TAGS\x01" + tag.encode()
        for _ in range(count):
            put = Put(topic, queue_id, ((0, body, properties),), HOST, int(self.clock.seconds() * 1000))
            self.store.append([put])
            self.case.assertGreaterEqual(put.end, 0, put.reason)
            put.status = PutStatus.PUT_OK
            self.store.stats.count_puts([put])
        self.turn()

    def turn(self):
        """Let everything happen that is due, and the dispatcher do its slices."""
        for _ in range(20):
            self.clock.advance(0.001)

    # ---- requests

    def ask(self, code, body=b"", client=None, version=407, **ext):
        """A Deferred of the answer. Numbers in `ext` become text."""
        command = RemotingCommand(
            code, version=version, ext={name: str(value) for name, value in ext.items()}, body=body
        )
        return (client or self.client).call(self.address, command, 1000)

    def pull(self, offset=0, queue_id=0, flags=4, group="g", hold=0, client=None, code=11, **more):
        """A pull that carries its subscription, unless `flags` say otherwise."""
        ext = {
            "consumerGroup": group,
            "topic": "T",
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": flags | (2 if hold else 0),
            "commitOffset": 0,
            "suspendTimeoutMillis": hold * 1000,
            "subscription": "*",
            "subVersion": 0,
        }
        if not flags & 4:
            del ext["subscription"]
        return self.ask(code, client=client, **ext | more)

    @inlineCallbacks
    def until(self, happened):
        """Let the reactor turn until `happened()`."""
        loop = task.LoopingCall(lambda: happened() and loop.stop())
        yield loop.start(0.002)

    @inlineCallbacks
    def held(self, *args, **kwargs):
        """A pull that the broker holds; its answer's Deferred as a list of one."""
        before = self.hold.count
        answer = self.pull(*args, hold=kwargs.pop("hold", 15), **kwargs)
        yield self.until(lambda: self.hold.count > before or answer.called)
        self.case.assertFalse(answer.called, "answered at once")
        return [answer]


class GroupMember(WireClient):
    """A client that may join a consumer group of the rig's broker."""

    def __init__(self, rig):
        super().__init__()
        self.rig = rig

    @classmethod
    @inlineCallbacks
    def connected(cls, rig):
        endpoint = rig.host.endpoint("127.0.0.1", PORT, 30)
        before = len(rig.factory.connections)
        client = yield connectProtocol(endpoint, cls(rig))
        rig.case.addCleanup(client.transport.abortConnection)
        yield rig.until(lambda: len(rig.factory.connections) > before)
        return client

    @inlineCallbacks
    def beat(self, group="g", topics=("T",), client_id="c1", language="JAVA", version=407):
        """Join `group` as a consumer, forgetting the notices that come of it."""
        body = heartbeat(client_id, group, dict.fromkeys(topics, ("*", 1)))
        answer = yield self.ask(34, json.dumps(body).encode(), language=language, version=version)
        self.rig.case.assertEqual(answer.code, 0)
        self.requests.clear()


def records(answer):
    """The records in a pull's body."""
    position, found = 0, []
    while position < len(answer.body):
        record = decode_record(answer.body, position)
        found.append(record)
        position += record.total_size
    return found


def heartbeat(client_id, group, subscriptions, **more):
    """Body of a heartbeat for one consumer group; subscriptions: topic -> (expression, version)."""
    return {
        "clientID": client_id,
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": group,
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [
                    {
                        "codeSet": [java_hash(expression)],
                        "expressionType": "TAG",
                        "subString": expression,
                        "subVersion": version,
                        "tagsSet": [expression],
                        "topic": topic,
                    }
                    for topic, (expression, version) in subscriptions.items()
                ],
                **more,
            }
        ],
        "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
    }
