"""Where `consume -o OFFSET -p QUEUE` reads: the words that are understood, and those that aren't."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.readingrange import Kind, Offsets, Place, parse_offsets, parse_queue
from hatwisted.wire.messagequeue import MessageQueue


class ReadingRangeTests(SynchronousTestCase):
    def test_offsets_as_kcat_writes_them(self) -> None:
        for text, place in (
            ("beginning", Place(Kind.FIRST)),
            ("first", Place(Kind.FIRST)),
            ("end", Place(Kind.LAST)),
            ("last", Place(Kind.LAST)),
            ("0", Place(Kind.OFFSET, 0)),
            ("1207", Place(Kind.OFFSET, 1207)),
            ("-10", Place(Kind.BACK, 10)),
            ("s@1700000000000", Place(Kind.TIME, 1700000000000)),
            ("s@2023-11-14T22:13:20", Place(Kind.TIME, 1700000000000)),
        ):
            self.assertEqual(parse_offsets([text]), Offsets(place), text)
        both = parse_offsets(["e@1700000000001", "s@1700000000000"])
        self.assertEqual(both, Offsets(Place(Kind.TIME, 1700000000000), Place(Kind.TIME, 1700000000001)))
        self.assertEqual(parse_offsets([]), Offsets())

    def test_others_are_refused_with_what_would_do(self) -> None:
        for texts, said in (
            (["noon"], "'noon' isn't beginning, end, OFFSET, -COUNT, s@TIME or e@TIME"),
            (["1", "2"], "two begins are given"),
            (["stored"], "without a group nothing is stored"),
            (["s@noon"], "'noon' isn't a time like"),
            (["99999999999999999999"], "isn't beginning"),
        ):
            self.assertIn(said, str(self.assertRaises(ValueError, parse_offsets, texts)))

    def test_a_queue_of_each_broker_or_of_one(self) -> None:
        queues = [MessageQueue(topic="T", broker_name=name, queue_id=n) for name in "ab" for n in (0, 1)]
        for text, matching in (("1", [queues[1], queues[3]]), ("b/1", [queues[3]]), ("c/1", [])):
            self.assertEqual([each for each in queues if parse_queue(text).matches(each)], matching)
        for wrong in ("", "x", "-1", "/1", "a/", "1/x"):
            self.assertRaises(ValueError, parse_queue, wrong)
