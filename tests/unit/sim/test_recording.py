"""A recorded run: nothing of it changes, and its moments come to what was there at every look."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.faultplan import Fault
from hatwisted.sim.recording import Figures, Moment, Recording
from hatwisted.sim.setup import Setup, draw_setup
from hatwisted.sim.simulation import Simulation
from hatwisted.sim.simulationpage import page, watch

FAULTS = (
    Fault(at=0.5, kind="cut", host="a", other="b", lasts=1.0),
    Fault(at=1.0, kind="power", host="a", lasts=1.0, amount=0.5),
    Fault(at=3.0, kind="promote", lasts=0.5),
)


def short(seed: int = 2) -> Setup:
    """A run of some seconds with few faults."""
    return msgspec.structs.replace(draw_setup(seed), seconds=6.0, faults=FAULTS)


class RecordingTests(SynchronousTestCase):
    def test_a_member_of_a_consumer_group_is_seen_and_so_is_its_cut_link(self) -> None:
        cut = Fault(at=1.0, kind="cut", host="names", other="billing-1", lasts=1.0)
        setup = msgspec.structs.replace(short(), seconds=2.5, consumers=True, faults=(cut,))
        _, recording = watch(setup)
        links = [
            moment.links["billing-1 names"]
            for moment in recording.moments
            if "billing-1 names" in moment.links
        ]
        self.assertEqual(links[:3], ["1", "1 <", "1"])
        given = known(recording.moments, recording.now, "billing-1")["given"]
        self.assertEqual(given, known(recording.moments, recording.now, "billing-2")["given"])
        self.assertTrue(given)

    def test_moments_come_to_what_is_there_and_the_run_stays_the_same(self) -> None:
        simulation = Simulation(short())
        recording = Recording(simulation)
        ends: list[tuple[float, str, object]] = []

        def look() -> None:
            recording.look()
            for name in ("a", "b"):
                machine = simulation.group.machines[name]
                end = machine.service.parts.store.log.max_offset if machine.running else None
                ends.append((recording.now, name, end))

        simulation.looked = look
        outcome = simulation.run()
        self.assertEqual(outcome.violations, [])
        self.assertEqual(Simulation(short()).run().digest, outcome.digest)
        self.assertGreater(len({end for _, _, end in ends}), 10)
        for at, name, end in ends:
            self.assertEqual(known(recording.moments, at, name).get("end"), end, f"{name} at {at}")
        self.assertEqual([fault.kind for fault in recording.faults], ["cut", "power", "promote"])
        told = [event.what for event in recording.events]
        for event in ("a loses its power", "a has power again", "b is the master now"):
            self.assertIn(event, told)
        cut = [moment.at for moment in recording.moments if ">" in moment.links.get("a b", "")]
        self.assertEqual(cut[:1], [6.75])


def known(moments: list[Moment], at: float, host: str) -> Figures:
    """What the moments up to `at` say of a host."""
    figures: Figures = {}
    for moment in moments:
        if moment.at > at:
            break
        figures |= moment.hosts.get(host, {})
    return figures


class PageTests(SynchronousTestCase):
    def test_it_needs_nothing_from_elsewhere_and_no_text_ends_its_script(self) -> None:
        setup = msgspec.structs.replace(short(), seconds=0.5, faults=())
        outcome, recording = watch(setup)
        recording.events[0].what = "</script><script>alert(1)</script>"
        outcome.violations.append("stored: <b>gone</b>")
        shown = page(setup, outcome, recording)
        self.assertEqual(shown.count("<script"), 2)
        self.assertIn("stored: &lt;b&gt;gone&lt;/b&gt;", shown)
        addresses = shown.replace("http://www.w3.org/2000/svg", "")  # a name, not a place
        for reference in ("http:", "https:", "src=", "url(", "import "):
            self.assertNotIn(reference, addresses)
