"""A broker's reading side for tests: a real store in a temporary folder, tables, processors, a real port.

Time is a `task.Clock`: what was put is dispatched when the test turns it.
"""

import json
from pathlib import Path

from twisted.internet import reactor, task
from twisted.internet.defer import inlineCallbacks, succeed
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol

from hatwisted.broker.admin.consumeradmin import ConsumerAdmin
from hatwisted.broker.admin.operations import Operations
from hatwisted.broker.admin.runtimeinfo import RuntimeInfo
from hatwisted.broker.consumer.offsetsync import OffsetSyncProcessors
from hatwisted.broker.consumer.processors import ConsumerProcessors
from hatwisted.broker.pull.pullhold import PullHold
from hatwisted.broker.pull.pullmessage import PullOptions, PullProcessor
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.topic.topicconfig import FirstTopics
from hatwisted.config.live import LiveConfig
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.server import ProcessorTable, RemotingServerFactory
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.store.filesystem import PosixFileSystem
from hatwisted.store.messagestore import MessageStore, StoreOptions
from hatwisted.store.put import Put, PutStatus
from hatwisted.store.worker import InlineWorker
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.record import decode_record
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
NOW = 1_795_221_957.0


class BrokerRig:
    """Verbs: `put`, `turn`, `ask`, `pull`. case: the test, for its clean-ups and temporary folder."""

    def __init__(
        self,
        case,
        clock=None,
        slave=False,
        root=None,
        memory_bytes=8 << 30,
        index=False,
        delay_levels=(),
        **options,
    ):
        self.case = case
        self.clock = clock or task.Clock()
        if clock is None:
            self.clock.advance(NOW)
        fs, worker = PosixFileSystem(), InlineWorker()
        self.root = root or str(Path(case.mktemp()).absolute())
        store_options = StoreOptions(
            root=self.root,
            store_host=HOST,
            commit_log_file_size=1 << 20,
            consume_queue_file_size=20 * 1000,
            index_enable=index,
            index_slots=1000,
            index_items=1000,
            memory_bytes=memory_bytes,
            delay_levels=delay_levels,
        )
        self.store = MessageStore(store_options, self.clock, fs, worker, worker)
        self.store.load()
        self.store.start()
        first = FirstTopics(broker_name="broker-a")
        self.tables = BrokerTables(self.clock, fs, worker, self.root, first, slave=slave)
        self.tables.load()
        self.tables.start()
        self.table = ProcessorTable()
        self._make_processors(slave, options)
        self.factory = RemotingServerFactory(self.table, self.clock)
        self.port = reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        self.address = f"127.0.0.1:{self.port.getHost().port}"
        self.client = self.new_client()
        case.addCleanup(self.stop)

    def _make_processors(self, slave, options):
        tables, store = self.tables, self.store
        self.consumers = ConsumerProcessors(
            self.clock,
            tables.topics,
            tables.groups,
            tables.offsets,
            tables.filters,
            store.starts_hot,
            store.queue_end,
            slave=slave,
        )
        self.consumers.register_on(self.table)
        self.pulls = PullProcessor(
            store.get_messages,
            tables.topics,
            tables.groups,
            self.consumers.clients,
            self.consumers.progress,
            tables.filters,
            PullOptions(slave=slave, **options),
        )
        self.hold = self.pulls.hold = PullHold(self.clock, self.pulls.retry, store.queue_end)
        store.add_arrival_listener(self.hold.arrived)
        self.pulls.register_on(self.table)
        self.admin = ConsumerAdmin(
            self.clock, store, tables, self.consumers, "broker-a", "DefaultCluster", HOST
        )
        self.admin.register_on(self.table)
        self.pulls.count_get = self.admin.stats.count_get
        self.runtime = RuntimeInfo(self.clock, store)
        self.config = LiveConfig(BrokerConfig())
        self.settled = lambda: succeed(None)
        self.hears_master = True
        Operations(
            self.clock,
            store,
            tables,
            self.consumers.clients,
            self.admin.stats,
            self.runtime,
            "broker-a",
            self.config,
            settled=lambda: self.settled(),
            slave=slave,
            hears_master=lambda: self.hears_master,
        ).register_on(self.table)
        OffsetSyncProcessors(tables.offsets, store.queue_end, slave=slave).register_on(self.table)
        self.hold.start()
        self.consumers.start()
        self.admin.start()

    @inlineCallbacks
    def stop(self):
        self.hold.stop()
        self.consumers.stop()
        self.admin.stop()
        yield self.port.stopListening()
        for connection in list(self.factory.connections):
            connection.abort()
        yield self.tables.stop()
        yield self.store.stop()

    def new_client(self):
        client = RemotingClient(TcpConnecting(reactor), self.clock)
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


class TalkingClient(Protocol):
    """A client that is asked things too: what the broker asks is kept in `requests`; verbs `send`, `ask`,
    `answer`."""

    def __init__(self, rig):
        self.rig = rig
        self.requests = []
        self.answers = {}
        self._receiver = RemotingReceiver()
        self._opaque = 0

    @classmethod
    @inlineCallbacks
    def connected(cls, rig):
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", rig.port.getHost().port)
        before = len(rig.factory.connections)
        client = yield connectProtocol(endpoint, cls(rig))
        rig.case.addCleanup(client.transport.abortConnection)
        yield rig.until(lambda: len(rig.factory.connections) > before)
        return client

    def dataReceived(self, data):
        for command in self._receiver.receive(data):
            if command.is_response:
                self.answers[command.opaque] = command
            else:
                self.requests.append(command)

    def send(self, command):
        self.transport.write(encode_command(command))

    @inlineCallbacks
    def ask(self, code, body=b"", language="JAVA", version=407, **ext):
        self._opaque += 1
        texts = {name: str(value) for name, value in ext.items()}
        self.send(RemotingCommand(code, self._opaque, 0, language, version, ext=texts, body=body))
        answer = yield self.answer_to(self._opaque)
        return answer

    @inlineCallbacks
    def answer_to(self, opaque):
        yield self.rig.until(lambda: opaque in self.answers)
        return self.answers.pop(opaque)

    @inlineCallbacks
    def asked(self, count=1):
        """The requests of the broker, once there are `count`."""
        yield self.rig.until(lambda: len(self.requests) >= count)
        return self.requests

    @inlineCallbacks
    def beat(self, group="g", topics=("T",), client_id="c1", language="JAVA", version=407):
        """Join `group` as a consumer, forgetting the notices that come of it."""
        body = heartbeat(client_id, group, dict.fromkeys(topics, ("*", 1)))
        answer = yield self.ask(34, json.dumps(body).encode(), language=language, version=version)
        self.rig.case.assertEqual(answer.code, 0)
        self.requests.clear()

    def answer(self, request, code=0, remark=None, body=b""):
        self.send(RemotingCommand(code, request.opaque, 1, remark=remark, body=body))


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
