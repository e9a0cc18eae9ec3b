"""Progress is told as it is when it's told, not as it was when somebody began to look for a broker."""

from twisted.internet.defer import Deferred

from hatwisted.client.driver import deferred
from hatwisted.clientcore.assignment import Assignment
from hatwisted.clientcore.consumefrom import PullFrom
from hatwisted.clientcore.offsets import BrokerOffsets
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.tasks import Waiter
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.serverfactory import RemotingServerFactory
from tests.support.clusterrig import asynchronous
from tests.unit.client.test_queuereader import MOVED, QUEUE, SUCCESS, ScriptedPulls, record


class TestAMasterThatIsGone(ScriptedPulls):
    @asynchronous
    async def test_its_slave_keeps_what_holds_by_then(self):
        """It took seconds to find the master gone, and meanwhile the reader was sent back."""
        kept, asked = [], iter([21, 14])
        table = ProcessorTable()
        table.register(15, lambda connection, request: kept.append(request.ext) or response(request, 0))
        factory = RemotingServerFactory(table, self.rig.clock)
        slave = self.rig.network.listenTCP(0, factory, interface="127.0.0.1")
        self.addresses = lambda: {0: "127.0.0.1:1", 1: f"127.0.0.1:{slave.getHost().port}"}
        await deferred(self.cluster.session.routes.route("T"))
        offsets = BrokerOffsets(self.cluster.session, "g")
        failed = await deferred(offsets.write([QUEUE], lambda queue: next(asked)))
        self.assertEqual((failed, [each["commitOffset"] for each in kept]), ([], ["14"]))
        await slave.stopListening()


class HeldOffsets:
    """Tells what it's told once that may go on."""

    def __init__(self):
        self.told, self.go_on = [], Waiter()

    async def write(self, queues, progress):
        self.told += [progress(queue) for queue in queues]
        await self.go_on
        return []


class TestAReaderThatIsSentBack(ScriptedPulls):
    def pull(self, connection, request):
        """The one that nothing is scripted for is answered later."""
        answered = super().pull(connection, request)
        if isinstance(answered, Deferred):
            self.held = answered, request
        return answered

    @asynchronous
    async def test_it_tells_its_progress_anew(self):
        offsets = HeldOffsets()
        place = PullFrom(self.cluster.session, offsets, ConsumeFrom.FIRST, 0)
        assignment = Assignment(self.cluster.session, None, None, place, None, auto_commit=True)
        assignment._readers[QUEUE] = self.reader
        await self.begin((SUCCESS, 102, record(100) + record(101)))
        await self.until_pulled(2)
        self.reader.take(2)
        self.reader.settle()
        committing = deferred(assignment.commit())
        self.assertEqual(offsets.told, [102])
        ext = {"nextBeginOffset": "90", "suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "0"}
        held, request = self.held
        held.callback(response(request, MOVED, "as told", ext))
        await self.until_pulled(3)
        offsets.go_on.fire(None)
        await committing
        self.assertIsNone(self.reader.committed)
        await deferred(assignment.commit())
        self.assertEqual((offsets.told, self.reader.committed), ([102, 90], 90))
