"""Imports into a master in this process: what arrives, in which order, and what a failure leaves and says."""

import base64
import json
import re
from functools import partial
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BadSetting, BrokerGone, NoRoute, Refused
from hatwisted.pipeline.jobs.messages.importing import (
    ImportInterrupted,
    ImportStopped,
    Sending,
    import_messages,
)
from hatwisted.pipeline.jobs.messages.messagefiles import BadMessageFile
from hatwisted.tap.realparts import real_parts
from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Record
from testbed.processes import BROKER_PORTS, free_port
from tests.support.clusterrig import ClusterRig, asynchronous

BORN = "2026-11-21T00:33:12.756Z"


class TestImport(TestCase):
    timeout = 250  # for a hang

    async def cluster(self, **settings):
        self.rig = ClusterRig(
            self, parts=real_parts(reactor), port=partial(free_port, BROKER_PORTS), **settings
        )
        await self.rig.start()

    def file(self, rows, name="m.ndjson"):
        path = Path(self.mktemp()).absolute()
        path.mkdir(parents=True)
        path /= name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return str(path)

    async def send(self, rows, retries=2, skip=0, **sending):
        settings = ClusterSettings(name_servers=(self.rig.names.address,), retries=retries)
        path = self.file(rows)
        return await deferToThread(
            import_messages, [path], settings, sending=Sending(**sending), skip=skip, progress=self.progress
        )

    def progress(self, done, total):
        self.assertLessEqual(done, total)
        self.told = done, total

    async def failing(self, error, rows, **more):
        with self.assertRaises(error) as caught:
            await self.send(rows, **more)
        return str(caught.exception)

    def stored(self):
        files = sorted(self.rig.folder.glob("broker-a/commitlog/*"))
        data = b"".join(path.read_bytes() for path in files)
        position, found = 0, []
        while isinstance(record := decode_record(data, position), Record):
            position += record.total_size
            found.append(record)
        return found

    @asynchronous
    async def test_a_message_arrives_as_it_was(self):
        await self.cluster()
        properties = {"PLACE": "Köln", "KEYS": "k1 k2", "TAGS": "red", "UNIQ_KEY": "ABC", "odd": "\x03\n"}
        rows = [
            {"topic": "T", "queue_id": 2, "body": "grün", "properties": properties, "flag": 7},
            {"topic": "T", "queue_id": 2, "body64": base64.b64encode(bytes(range(256))).decode()},
            {
                "topic": "T",
                "queue_id": 2,
                "body": "x",
                "properties": {"REAL_TOPIC": "other", "CLUSTER": "old"},
            },
            {"topic": "U", "queue_id": 0, "body": "", "tags": "t", "keys": ["a"], "unique_key": "u"},
        ]
        result = await self.send(rows)
        self.assertEqual((result.messages, result.statuses, result.exit_code), (4, {"OK": 4}, 0))
        self.assertEqual(self.told[0], self.told[1])
        one, two, three, four = sorted(self.stored(), key=lambda record: (record.topic, record.queue_offset))
        self.assertEqual((one.queue_id, one.body, one.flag), (2, "grün".encode(), 7))
        self.assertEqual(self.own(one), properties)
        self.assertEqual(two.body, bytes(range(256)))
        self.assertEqual(self.own(three), {})
        self.assertEqual(self.own(four), {"TAGS": "t", "KEYS": "a", "UNIQ_KEY": "u"})

    @staticmethod
    def own(record):
        return {name: value for name, value in record.properties.items() if name != "CLUSTER"}

    @asynchronous
    async def test_each_queue_keeps_its_order(self):
        await self.cluster()
        rows = [{"topic": "T", "queue_id": number % 4, "body": str(number)} for number in range(3000)]
        result = await self.send(rows)
        self.assertEqual(result.messages, 3000)
        for queue in range(4):
            bodies = [int(record.body) for record in self.stored() if record.queue_id == queue]
            self.assertEqual(bodies, list(range(queue, 3000, 4)))

    @asynchronous
    async def test_any_queue(self):
        await self.cluster()
        rows = [{"queue_id": 17, "body": str(number)} for number in range(1000)]
        await self.send(rows, topic="Elsewhere", queues="any")
        found = self.stored()
        self.assertEqual({record.topic for record in found}, {"Elsewhere"})
        self.assertEqual({record.queue_id for record in found}, {0, 1, 2, 3})
        self.assertEqual(sorted(int(record.body) for record in found), list(range(1000)))

    @asynchronous
    async def test_times_of_birth(self):
        await self.cluster()
        row = {"topic": "T", "queue_id": 0, "body": "x", "born_timestamp": BORN, "reconsume_times": 2}
        await self.send([row])
        await self.send([row, row, {**row, "born_timestamp": None}], keep_born=True)
        now, kept, too, without = self.stored()
        self.assertEqual((kept.born_timestamp, too.born_timestamp), (1795221192756, 1795221192756))
        self.assertEqual(kept.reconsume_times, 2)
        self.assertNotIn(1795221192756, (now.born_timestamp, without.born_timestamp))

    @asynchronous
    async def test_what_the_broker_finds_illegal_is_counted_and_the_rest_goes_on(self):
        await self.cluster()
        rows = [{"topic": "T", "queue_id": 0, "body": str(number)} for number in range(5)]
        rows.insert(2, {"topic": "T", "queue_id": 0, "body": "x" * 500_001})
        rows.insert(4, {"topic": "T", "queue_id": 0, "body": "x" * 500_002})
        result = await self.send(rows)
        self.assertEqual((result.messages, result.refused, result.exit_code), (5, 2, 1))
        self.assertEqual([number for number, _ in result.refusals], [2, 4])
        self.assertEqual([record.body for record in self.stored()], [b"%d" % number for number in range(5)])

    @asynchronous
    async def test_a_bad_row_ends_it_and_says_where_to_go_on(self):
        await self.cluster()
        rows = [{"topic": "T", "queue_id": 0, "body": str(number)} for number in range(300)]
        told = await self.failing(ImportStopped, [*rows[:200], "nonsense", *rows[201:]])
        self.assertRegex(told, r"line 201: .*200 messages are stored: continue with --skip 200$")
        self.assertEqual(len(self.stored()), 200)
        result = await self.send(rows, skip=200)
        self.assertEqual((result.messages, result.skipped), (100, 200))
        self.assertEqual([int(record.body) for record in self.stored()], list(range(300)))

    @asynchronous
    async def test_ctrl_c_ends_it_and_says_where_to_go_on(self):
        await self.cluster()

        def progress(done, total):
            if done > total / 2:
                raise KeyboardInterrupt

        self.progress = progress
        rows = [{"topic": "T", "queue_id": number % 4, "body": str(number)} for number in range(3000)]
        told = await self.failing(ImportInterrupted, rows)
        found = re.fullmatch(
            r"interrupted; (\d+) messages are stored: continue with --skip (\d+)"
            r"(?: \(up to (\d+) of the next messages may be stored already\))?",
            told,
        )
        stored, skip, uncertain = (int(each or 0) for each in found.groups())
        self.assertLessEqual(skip, stored)
        self.progress = lambda done, total: None
        await self.send(rows, skip=skip)
        bodies = [int(record.body) for record in self.stored()]
        self.assertEqual(set(bodies), set(range(3000)))
        self.assertLessEqual(len(bodies) - 3000, uncertain)

    @asynchronous
    async def test_rows_that_cant_be_sent(self):
        await self.cluster()
        self.assertIn("no topic", await self.failing(BadMessageFile, [{"body": "x"}]))
        own = {"topic": "SCHEDULE_TOPIC_XXXX", "body": "x"}
        self.assertIn("brokers' own", await self.failing(BadMessageFile, [own]))
        empty = {"topic": "T", "body": "x", "properties": {"a": ""}}
        self.assertIn("line 1", await self.failing(BadMessageFile, [empty]))
        self.assertEqual(self.stored(), [])

    @asynchronous
    async def test_a_queue_that_isnt_there(self):
        await self.cluster()
        told = await self.failing(BadSetting, [{"topic": "T", "queue_id": 4, "body": "x"}])
        self.assertIn("queue 4", told)

    @asynchronous
    async def test_a_topic_that_isnt_there_and_may_not_be_made(self):
        await self.cluster(autoCreateTopicEnable=False)
        self.assertIn("topic T", await self.failing(NoRoute, [{"topic": "T", "body": "x"}]))

    @asynchronous
    async def test_a_master_that_takes_nothing(self):
        await self.cluster(masters=0)
        alone = {"inSyncReplicas": 2, "minInSyncReplicas": 2}
        await self.rig.add_broker("broker-a", "broker-a", "SYNC_MASTER", **alone)
        told = await self.failing(Refused, [{"topic": "T", "body": "x"}], retries=1)
        self.assertIn("message 0 for topic T", told)

    @asynchronous
    async def test_a_broker_that_is_gone(self):
        await self.cluster()
        await self.send([{"topic": "T", "queue_id": 0, "body": "x"}])
        await self.rig.stop_broker("broker-a")
        told = await self.failing(
            (BrokerGone, NoRoute), [{"topic": "T", "queue_id": 0, "body": "x"}], retries=1
        )
        self.assertTrue("topic T" in told or "can't be reached" in told, told)
