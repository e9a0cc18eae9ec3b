"""Queues as JSON objects, and as keys of JSON objects."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire import fastjson
from hatwisted.wire.messagequeue import (
    MessageQueue,
    parse_queue,
    parse_queue_key,
    parse_queue_table,
    queue_table,
)

QUEUE = MessageQueue(broker_name="b", queue_id=3, topic="T")
KEY = '{"brokerName":"b","queueId":3,"topic":"T"}'


class TestMessageQueue(SynchronousTestCase):
    def test_table_keyed_by_queues_is_written_as_fastjson_does_and_read_back(self):
        body = fastjson.dumps_compact({"offsetTable": {QUEUE: 7}})
        self.assertEqual(body, b'{"offsetTable":{' + KEY.encode() + b":7}}")
        self.assertEqual(fastjson.dumps_compact({"offsetTable": queue_table({QUEUE: 7})}), body)
        self.assertEqual(bytes(queue_table({})), b"{}")
        self.assertEqual(parse_queue_table(fastjson.loads(body)["offsetTable"]), {QUEUE: 7})

    def test_object_and_key(self):
        self.assertEqual(parse_queue({"topic": "T", "queueId": "3", "brokerName": "b", "more": 1}), QUEUE)
        self.assertEqual(parse_queue_key(KEY), QUEUE)

    def test_what_is_no_queue(self):
        for value in (None, [], "T", {"topic": "T"}, {"topic": "T", "queueId": "x", "brokerName": "b"}):
            self.assertRaises(ValueError, parse_queue, value)
        for key in ("", "T", "{}", '{"topic":'):
            self.assertRaises(ValueError, parse_queue_key, key)
        for table in (None, [], {"T": 1}, {KEY: None}, {KEY: "x"}):
            self.assertRaises(ValueError, parse_queue_table, table)
