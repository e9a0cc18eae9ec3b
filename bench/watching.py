"""What being watched costs a master: a scrape of its figures and a live page, each every second.

Prometheus asks every 15 s by default, and nobody looks at a page all day: this is more than a broker has to bear.
The counting itself can't be turned off, and is in both ways of the row.
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.arena import SINGLE, Arena, attempt
from bench.figures import Outcome
from bench.protecting import LOAD
from bench.ways import Comparison
from testbed.brokergroup import OURS
from testbed.processes import free_port

WATCHING_COST = 2.0  # percent
SCRAPE_INTERVAL = 1.0
TURNS = 2  # for each repetition: the difference looked for is small


def metrics_cost(arena: Arena) -> Outcome:
    """How much slower the first row is while figures are scraped and a live page is open."""
    outcome, found = Outcome(), Comparison("open", "watched")
    metrics, page = free_port(), free_port()
    settings = {"metricsPort": metrics, "dashboardPort": page, "metricsTopics": 100}
    if OURS in arena.kinds:  # RocketMQ 4.9.7 has neither
        with attempt(arena, outcome, OURS), arena.pair(OURS, "SYNC_MASTER", settings) as group:
            group.slave_settings = {"metricsPort": free_port(), "dashboardPort": free_port()}
            group.start()
            arena.load(group.master_port, SINGLE, warm=arena.warm_seconds(OURS), quiet=True)
            for number in range(arena.repeats * TURNS):
                found.measure(arena, OURS, f"open {number + 1}", ("open", group, SINGLE))
                with watched(f"http://127.0.0.1:{metrics}/metrics", f"http://127.0.0.1:{page}/stream"):
                    found.measure(arena, OURS, f"watched {number + 1}", ("watched", group, SINGLE))
    found.tell(outcome, LOAD, WATCHING_COST)
    return outcome


@contextmanager
def watched(metrics: str, stream: str) -> Iterator[None]:
    """Somebody scrapes, and somebody looks.

    - metrics: address of the figures
    - stream: address of the live page's events
    """
    ended = threading.Event()
    scrapes, streamed = [0], [0]

    def scrape() -> None:
        while not ended.wait(SCRAPE_INTERVAL):
            with urllib.request.urlopen(metrics, timeout=10) as answer:
                answer.read()
            scrapes[0] += 1

    def look() -> None:
        with urllib.request.urlopen(stream, timeout=30) as answer:
            while not ended.is_set() and (data := answer.readline()):
                streamed[0] += len(data)

    threads = [threading.Thread(target=work, daemon=True) for work in (scrape, look)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(5)
    if not scrapes[0] or not streamed[0]:
        raise RuntimeError(f"nobody watched: {scrapes[0]} scrapes, {streamed[0]} bytes of the page")
