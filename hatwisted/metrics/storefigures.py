"""Figures of the store: puts and how long they took, the log, its disk."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hatwisted.broker.put.putack import PutAcks
from hatwisted.metrics.families import Figures, counter, gauge, histograms, labelled
from hatwisted.store.messagestore import MessageStore


class StoreFigures:
    """A source.

    - store: the broker's
    - acks: what answers a master's puts; None on a slave
    - now: the clock's
    """

    def __init__(
        self, store: MessageStore, acks: Callable[[], PutAcks | None], now: Callable[[], float]
    ) -> None:
        self._store = store
        self._acks = acks
        self._now = now

    def __call__(self) -> Figures:
        """See families.Source."""
        yield from self._puts()
        yield from self._log()
        yield from self._reads()

    def _puts(self) -> Figures:
        stats, acks = self._store.stats, self._acks()
        yield labelled(
            CounterMetricFamily,
            "hatwisted_puts_total",
            "Puts answered, by status.",
            ["status"],
            [([status.value], count) for status, count in stats.put_statuses.items()],
        )
        stages = {"append": self._store.log.append_times}
        if acks is not None:
            stages |= {"flush": acks.flush_times, "replicate": acks.replicate_times}
            yield gauge(
                "hatwisted_puts_waiting",
                "Puts that wait for disk or slave (at most 1,000,000).",
                acks.waiting,
            )
        yield histograms(
            "hatwisted_put_seconds",
            "Seconds of puts in a stage: written to the log, synced to the disk, acknowledged by slaves.",
            "stage",
            stages,
        )
        yield histograms(
            "hatwisted_sync_seconds",
            "Seconds of the log's fdatasync.",
            "file",
            {"commitlog": self._store.flusher.sync_times},
        )

    def _log(self) -> Figures:
        store, log = self._store, self._store.log
        yield gauge("hatwisted_log_begin_offset", "First byte of the log that is still held.", log.min_offset)
        yield gauge("hatwisted_log_end_offset", "End of the log, in bytes.", log.max_offset)
        yield gauge("hatwisted_log_flushed_offset", "The log is on the disk up to here.", log.flushed_offset)
        yield gauge(
            "hatwisted_log_stopped",
            "1 if the log takes nothing more until a restart: a sync has failed, or files differ in size.",
            log.stopped_reason is not None,
        )
        yield gauge(
            "hatwisted_dispatch_stalled",
            "1 while messages of the log don't get into their queues.",
            store.reput.stalled_reason is not None,
        )
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_disk_used_ratio",
            "Used share of the disk (puts are refused above 0.9).",
            ["path"],
            [([path], used) for path, used in store.watermark.ratios.items()],
        )
        yield gauge(
            "hatwisted_disk_full",
            "1 while the disk is too full for puts.",
            store.watermark.full_reason is not None,
        )
        local = ["storage_type", "storage_medium"]
        for name, help_text, figure in (
            ("size", "Bytes of the log that are held.", log.max_offset - log.min_offset),
            ("flush_behind_bytes", "Bytes of the log not yet synced.", log.max_offset - log.flushed_offset),
            ("dispatch_behind_bytes", "Bytes of the log not yet in queues.", store.dispatch_behind_bytes),
            ("message_reserve_time", "Milliseconds since the oldest message was stored.", self._oldest()),
        ):
            yield labelled(
                GaugeMetricFamily,
                f"rocketmq_storage_{name}",
                help_text,
                local,
                [(["local", "disk"], figure)],
            )

    def _oldest(self) -> float:
        stored = self._store.earliest_message_time()
        return max(0, int(self._now() * 1000) - stored) if stored >= 0 else 0

    def _reads(self) -> Figures:
        stats = self._store.stats
        yield labelled(
            CounterMetricFamily,
            "hatwisted_reads_total",
            "Looks of pulls into a queue, by whether there was something.",
            ["result"],
            [(["found"], stats.get_found_total), (["nothing"], stats.get_miss_total)],
        )
        yield counter("hatwisted_messages_read_total", "Messages handed out by reads.", stats.get_total)
        yield gauge(
            "hatwisted_read_longest_seconds", "Longest look into a queue.", stats.get_entire_time_max / 1000
        )
