"""The same seed gives the same run: nothing in the client's logic is left to the process or to a set's order."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

from twisted.trial.unittest import SynchronousTestCase

import hatwisted.clientcore
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import TwistedDriver
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.queuelocks import QueueLocks
from hatwisted.clientcore.tasks import Task
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import NAME_SERVER, MemoryNodes
from tests.support.scripteddriver import ScriptedDriver

OF_THE_PROCESS = {"os", "random", "secrets", "socket", "time", "uuid"}
ALLOWED = {"process": {"os", "random", "socket"}, "driver": {"random"}}
"""`driver` for a type."""


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {each.name.split(".")[0] for each in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.split(".")[0])
    return found


class SourceTests(SynchronousTestCase):
    def test_no_module_asks_the_process_for_chance_time_or_names(self) -> None:
        asking = {
            path.stem: asked
            for path in sorted(Path(hatwisted.clientcore.__path__[0]).glob("*.py"))
            if (asked := imports_of(path) & OF_THE_PROCESS)
        }
        self.assertEqual(asking, ALLOWED)


class OrderTests(SynchronousTestCase):
    def test_brokers_are_asked_for_locks_in_order_and_each_for_its_queues_in_order(self) -> None:
        bodies = []

        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            bodies.append(fastjson.loads(request.body))
            return RemotingCommand(
                0, flag=1, body=fastjson.dumps_compact({"lockOKMQSet": bodies[-1]["mqSet"]})
            )

        groups = {f"b{number}": {0: f"10.0.0.{number}:10911"} for number in range(1, 9)}
        driver = ScriptedDriver(groups, answer)
        session = ClusterLink(driver, NAME_SERVER).session
        Task(session.routes.route("T")).result()
        queues = [
            MessageQueue(broker_name=name, queue_id=number, topic="T")
            for name in groups
            for number in range(8)
        ]
        locks = QueueLocks(session, "g")
        self.assertEqual(Task(locks.lock(set(queues))).result(), (queues, []))
        Task(locks.unlock(set(queues))).result()
        every = [address for addresses in groups.values() for address in addresses.values()]
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            self.assertEqual([address for _, address in driver.calls_of(code)], every)
        for body in bodies:
            self.assertEqual([each["queueId"] for each in body["mqSet"]], list(range(8)))


class SeedTests(SynchronousTestCase):
    def run_with(self, seed: int) -> list[object]:
        """Two members of a group, in order, and what a producer's messages become."""
        nodes = MemoryNodes(self)
        nodes.start_name_server()
        nodes.start("10.0.0.1", namesrv_addr=NAME_SERVER)
        nodes.pass_time(1)
        chance = Random(seed)
        story: list[object] = []
        clusters = []
        for number in range(2):
            host = nodes.network.host(f"10.0.1.{number}")
            cluster = Cluster.on(TwistedDriver(nodes.clock, host, randomness=chance), NAME_SERVER)
            clusters.append(cluster)
            story.append(cluster.client_id.split("#")[1])
        producer = clusters[0].producer("p")
        for number in range(8):
            story.append(nodes.result(producer.send(Message(topic="T", body=b"%d" % number))))
        for number, cluster in enumerate(clusters):
            consumer = cluster.consumer(
                "g",
                {"T": "*"},
                on_messages=lambda batch, number=number: story.append((number, batch[0].message_id)),
                orderly=True,
            )
            nodes.result(consumer.start(), 60)
        for number in range(8):
            story.append(nodes.result(producer.send(Message(topic="T", body=b"%d" % number))))
        nodes.pass_time(30)
        for cluster in clusters:
            nodes.result(cluster.close(), 60)
        return story

    def test_the_same_seed_tells_the_same_story_and_another_another(self) -> None:
        first, again, other = (self.run_with(seed) for seed in (1, 1, 2))
        self.assertGreaterEqual(len(first), 2 + 16 + 8)
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
