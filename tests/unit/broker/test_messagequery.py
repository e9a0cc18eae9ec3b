"""Messages by key: 12."""

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin import messagequery
from hatwisted.broker.admin.messagequery import MAX_MESSAGES
from hatwisted.store.index import indexfile
from hatwisted.store.log.put import Put
from hatwisted.timing import steps
from tests.unit.broker.rig import HOST, NOW, BrokerRig, records

QUERY = 12
FIELDS = {"topic": "T", "key": "k", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": int(NOW * 2000)}


class TestQuery(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self, index=True)

    def put(self, body, properties=b"KEYS\x01k other\x02UNIQ_KEY\x01ID1"):
        put = Put("T", 0, ((0, body, properties),), HOST, 0)
        self.rig.store.append([put])
        self.rig.turn()
        return put

    @inlineCallbacks
    def bodies(self, **more):
        answer = yield self.rig.ask(QUERY, **FIELDS | more)
        self.assertEqual(answer.code, 0)
        return [record.body for record in records(answer)]

    @inlineCallbacks
    def test_found_by_any_of_its_keys_in_log_order(self):
        self.put(b"0")
        last = self.put(b"1")
        for key in ("k", "other", "ID1"):
            self.assertEqual((yield self.bodies(key=key)), [b"0", b"1"])
        answer = yield self.rig.ask(QUERY, **FIELDS)
        self.assertEqual(answer.ext["indexLastUpdatePhyoffset"], str(last.offset))
        self.assertEqual(answer.ext["indexLastUpdateTimestamp"], str(records(answer)[-1].store_timestamp))

    @inlineCallbacks
    def test_at_most_as_many_as_asked_for_the_newest(self):
        for number in range(70):
            self.put(b"%d" % number)
        self.assertEqual((yield self.bodies(maxNum=2)), [b"68", b"69"])
        self.assertEqual(len((yield self.bodies(maxNum=1000))), MAX_MESSAGES)
        self.assertEqual(len((yield self.bodies(maxNum=1, _UNIQUE_KEY_QUERY="true", key="ID1"))), 32)

    @inlineCallbacks
    def test_B175_a_long_chain_is_looked_through_in_steps(self):
        self.patch(indexfile, "CHAIN_STEP", 3)
        for number in range(10):
            self.put(b"%d" % number)
        self.rig.clock.advance(20)
        self.put(b"last")
        between = {"beginTimestamp": int(NOW * 1000) + 5000, "endTimestamp": int(NOW * 1000) + 15_000}
        vain = [self.rig.ask(QUERY, **FIELDS | between) for _ in range(steps.MAX_OF_ONE + 3)]
        other = self.rig.ask(QUERY, client=self.rig.new_client(), **FIELDS | {"maxNum": 1})
        self.assertEqual([record.body for record in records((yield other))], [b"last"])
        yield self.rig.until(lambda: [each.called for each in vain].count(True) == 3)
        self.rig.turn()
        codes = []
        for each in vain:
            codes.append((yield each).code)
        self.assertEqual(codes, [22] * steps.MAX_OF_ONE + [2] * 3)

    @inlineCallbacks
    def test_a_chain_has_an_end(self):
        for number in range(10):
            self.put(b"%d" % number)
        self.patch(indexfile, "CHAIN_LIMIT", 3)
        self.assertEqual((yield self.bodies()), [b"7", b"8", b"9"])

    @inlineCallbacks
    def test_an_answer_is_bounded_in_bytes(self):
        self.patch(messagequery, "MAX_BYTES", 900)
        for body in (b"0", b"1", bytes(600)):
            self.put(body)
        self.assertEqual((yield self.bodies()), [b"1", bytes(600)])
        self.put(bytes(2000))
        self.assertEqual((yield self.bodies()), [bytes(2000)])

    @inlineCallbacks
    def test_not_found(self):
        self.put(b"0")
        late = int(NOW * 1000) + 60_000
        for more in ({"key": "no"}, {"topic": "U"}, {"maxNum": 0}, {"beginTimestamp": late}):
            answer = yield self.rig.ask(QUERY, **FIELDS | more)
            self.assertEqual(answer.code, 22)
            self.assertEqual(answer.remark, "can not find message, maybe time range not correct")
            self.assertEqual(answer.ext["indexLastUpdatePhyoffset"], "0")

    @inlineCallbacks
    def test_bad_fields(self):
        for name in FIELDS:
            answer = yield self.rig.ask(QUERY, **{key: FIELDS[key] for key in FIELDS if key != name})
            self.assertEqual((answer.code, answer.remark), (1, f"request field {name} is missing"))
        answer = yield self.rig.ask(QUERY, **FIELDS | {"maxNum": "x"})
        self.assertEqual((answer.code, answer.remark), (1, "request field maxNum has the value 'x'"))


class TestWithoutIndex(TestCase):
    @inlineCallbacks
    def test_nothing_is_found(self):
        rig = BrokerRig(self)
        self.assertEqual((yield rig.ask(QUERY, **FIELDS)).code, 22)
