"""What the live page is made of: the last hour, its lines, the last events."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any, cast

from markupsafe import Markup
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.logger import Logger, LogPublisher
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import Request

from hatwisted.metrics.chart import HEIGHT, WIDTH, Chart, drawn
from hatwisted.metrics.eventfeed import LONGEST, MOST, EventFeed
from hatwisted.metrics.hour import MOMENTS, Hour, Totals, quantile
from hatwisted.metrics.livepage import UNTAKEN, Access, Parts, Stream, Streams
from hatwisted.metrics.livestate import LiveState, seconds_text, size_text


class HourTests(SynchronousTestCase):
    def test_a_moment_is_the_difference_to_the_one_before(self) -> None:
        hour = Hour()
        hour.note(Totals(100.0, 1000, 10, {"append": [5, 0, 0]}), (0.1, 1.0), None)
        hour.note(Totals(110.0, 1500, 30, {"append": [5, 100, 0]}), (0.1, 1.0), 2.0)
        (moment,) = hour.moments
        self.assertEqual((moment.rate_in, moment.rate_out, moment.lag), (50.0, 2.0, 2.0))
        self.assertAlmostEqual(moment.stages["append"], 0.991)

    def test_a_stage_without_puts_has_no_figure(self) -> None:
        hour = Hour()
        for at in (1.0, 11.0):
            hour.note(Totals(at, 0, 0, {"flush": [7, 0]}), (0.1,), None)
        self.assertEqual(hour.moments[0].stages, {})

    def test_an_hour_is_kept(self) -> None:
        hour = Hour()
        for number in range(2 * MOMENTS):
            hour.note(Totals(number * 10.0, number, 0, {}), (), None)
        self.assertEqual(len(hour.moments), MOMENTS)

    def test_what_is_beyond_the_last_bound_is_at_least_that(self) -> None:
        self.assertEqual(quantile([0, 0, 9], (0.1, 1.0), 0.99), 1.0)


class ChartTests(SynchronousTestCase):
    def test_the_highest_figure_is_at_the_top_and_now_at_the_right(self) -> None:
        text = drawn(Chart("Lag", seconds_text, {"lag": [(400.0, 0.0), (1000.0, 4.0)]}), 1000.0)
        self.assertIn(f'points="0.0,{HEIGHT - 18}.0 {WIDTH}.0,8.0"', text)

    def test_a_gap_parts_the_line(self) -> None:
        points = [(10.0, 1.0), (20.0, None), (30.0, 2.0)]
        self.assertEqual(drawn(Chart("Lag", seconds_text, {"lag": points}), 30.0).count("<polyline"), 2)

    def test_nothing_yet_is_drawn_as_nothing(self) -> None:
        self.assertNotIn("<polyline", drawn(Chart("<Lag>", seconds_text, {"lag": []}), 30.0))
        self.assertIn("&lt;Lag&gt;", drawn(Chart("<Lag>", seconds_text, {"lag": []}), 30.0))


class EventFeedTests(SynchronousTestCase):
    def setUp(self) -> None:
        publisher = LogPublisher()
        self.log = Logger(observer=publisher)
        self.feed = EventFeed(publisher)
        self.feed.start()

    def test_named_events_and_warnings_are_kept(self) -> None:
        self.log.info("a line like many")
        self.log.info("slave lag", event="slave.lag")
        self.log.info("slave {peer} left", event="slave.left", peer="10.0.0.2")
        self.log.warn("no\nspace")
        self.assertEqual(
            [(told.level, told.name, told.text) for told in self.feed.told],
            [("info", "slave.left", "slave 10.0.0.2 left"), ("warn", "", "no space")],
        )

    def test_they_have_a_number_and_a_length(self) -> None:
        for number in range(MOST + 5):
            self.log.error("{text}", text=f"{number} " + "x" * 1000)
        self.assertEqual(len(self.feed.told), MOST)
        self.assertTrue(all(len(told.text) == LONGEST for told in self.feed.told))

    def test_nothing_is_heard_after_its_stop(self) -> None:
        self.feed.stop()
        self.log.error("too late")
        self.assertEqual(list(self.feed.told), [])


class TextTests(SynchronousTestCase):
    def test_figures_in_words(self) -> None:
        self.assertEqual(
            [size_text(size) for size in (0, 1023, 1536, 5 << 30)], ["0 B", "1,023 B", "1.5 KiB", "5.0 GiB"]
        )
        self.assertEqual(
            [seconds_text(each) for each in (0, 0.00025, 0.0101, 5, 600)],
            ["0 s", "250 µs", "10.1 ms", "5.0 s", "10 min"],
        )


class Viewer:
    """A request of a page that wants to be kept up to date."""

    method = b"GET"

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.closed = False
        self.ended: Deferred[None] = Deferred()

    def setHeader(self, name: str, value: str) -> None:
        """Of no interest here."""

    def notifyFinish(self) -> Deferred[None]:
        return self.ended

    def registerProducer(self, producer: Stream, streaming: bool) -> None:
        self.producer = producer

    def write(self, data: bytes) -> None:
        self.taken.append(data)

    @property
    def channel(self) -> Viewer:
        return self

    def forceAbortClient(self) -> None:
        self.closed = True
        self.ended.errback(ConnectionLost())

    def parts(self) -> dict[str, str]:
        """What he has, by name."""
        events = b"".join(self.taken).decode()
        return {name: json.loads(text) for name, text in re.findall(r"event: (.*)\ndata: (.*)\n", events)}


class PartsTests(SynchronousTestCase):
    def test_what_others_say_turns_no_text_around_and_is_no_markup(self) -> None:
        evil = "<b>\x9b2J\u202eevil\u2066\u200b"
        shown = {
            "name": evil, "findings": [], "tiles": [], "group": [], "links": [], "slave": None,
            "name_servers": {},
            "events": [("12:00", "info", evil, evil)],
        }  # fmt: skip
        state = SimpleNamespace(shown=lambda: shown)
        parts = Parts(cast(LiveState, state)).changing()
        for text in parts.values():
            self.assertIn("&lt;b&gt;\\x9b2J\\u202eevil\\u2066\\u200b", text)
            self.assertTrue(text.replace("\n", "").isprintable())

    def test_charts_are_markup(self) -> None:
        charts = [{"title": "Lag", "names": [], "svg": Markup("<svg>\n</svg>")}]
        state = SimpleNamespace(charts=lambda: charts)
        self.assertIn("<svg>\n</svg>", Parts(cast(LiveState, state)).hour())


class StreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.state, self.events, self.hours = "s0", "e0", 0
        case = self

        class Rendered:
            def changing(self) -> dict[str, str]:
                return {"state": case.state, "events": case.events}

            def hour(self) -> str:
                case.hours += 1
                return "h"

        self.streams = Streams(cast(Parts, Rendered()), self.clock, cast(Access, self))

    def refusal(self, request: Any) -> None:
        """Everybody may look."""

    def view(self) -> Viewer:
        viewer = Viewer()
        self.streams.render(cast(Request, viewer))
        return viewer

    def test_who_could_take_nothing_for_a_while_gets_all_that_has_changed_meanwhile(self) -> None:
        slow, quick = self.view(), self.view()
        slow.producer.pauseProducing()
        self.events = "e1"
        self.clock.advance(1)
        slow.producer.resumeProducing()
        for number in range(1, 4):
            self.state = f"s{number}"
            self.clock.advance(1)
        self.assertEqual(slow.parts(), {"state": "s3", "events": "e1", "hour": "h"})
        self.assertEqual(slow.parts(), quick.parts())
        self.assertEqual(b"".join(quick.taken).count(b"event: events"), 1)  # what stays isn't sent again

    def test_who_takes_nothing_for_long_gives_his_place_up(self) -> None:
        stuck, slow = self.view(), self.view()
        for viewer in (stuck, slow):
            viewer.producer.pauseProducing()
        self.clock.pump([1] * (UNTAKEN - 1))
        slow.producer.resumeProducing()
        self.clock.pump([1] * 2)
        self.assertEqual((stuck.closed, slow.closed), (True, False))

    def test_who_comes_later_has_all_parts_and_makes_no_work(self) -> None:
        first = self.view()
        self.clock.advance(3)
        self.assertEqual((self.view().producer is first.producer, self.hours), (False, 1))
        later = self.view()
        self.clock.advance(1)
        self.assertEqual((later.parts(), self.hours), ({"state": "s0", "events": "e0", "hour": "h"}, 1))
