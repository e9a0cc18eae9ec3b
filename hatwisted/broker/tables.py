"""The broker's tables with their files: topics, groups, consumer offsets, delay offsets, consumers' filters
under `config/`.

Progress goes to disk after the log that it was made in. It speaks of copies and decisions that a broker has put by
itself, and under ASYNC_FLUSH nobody waited for those: after a failure of power a delayed message would count as
delivered, and a transaction as checked, whose only trace was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os.path import join

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import encode_progress
from hatwisted.broker.consumer.subscriptiongroup import SubscriptionGroupTable
from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.broker.filter.consumerfilter import ConsumerFilterTable, FilterOptions
from hatwisted.broker.role import Role
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable
from hatwisted.store.disk.configfile import FLUSH_INTERVAL, ConfigFile, ConfigFlusher, written
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.wire.storenames import CONFIG_FOLDER

DELAY_FLUSH_INTERVAL = 10.0
"""Seconds between writes of the delay levels' progress: what a crash may have delivered again (4.9.7: 10 s)."""

MAX_PRETTY_ROWS = 5_000
"""Topics of groups, 25 ms."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a broker's tables are made with.

    - root: the store folder
    - first: what decides the topics of a first start
    - auto_create_topic, auto_create_group: are unknown ones made on demand at present?
    - filters: see FilterOptions
    - offset_interval, delay_interval: seconds between two writes of consumers' progress, and of the delay levels'
    """

    root: str
    first: FirstTopics
    auto_create_topic: Callable[[], bool] | None = None
    auto_create_group: Callable[[], bool] = lambda: True
    filters: FilterOptions = FilterOptions()
    offset_interval: float = FLUSH_INTERVAL
    delay_interval: float = DELAY_FLUSH_INTERVAL


def progress_text(offsets: ConsumerOffsetTable) -> bytes:
    """The content of consumerOffset.json: as RocketMQ writes it, or, of a large table, with nothing between the
    words, which RocketMQ reads as well. Everybody can commit for groups that nobody has heard of, and 300,000 rows
    take two seconds to be written nicely."""
    progress = offsets.progress()
    if len(progress.offset_table) + len(progress.reset_table) <= MAX_PRETTY_ROWS:
        return offsets.encode()
    return encode_progress(progress)


class BrokerTables:
    """What a broker knows besides its messages, in RocketMQ's files.

    - clock: dates the versions
    - fs: where the files are
    - worker: writes them
    - log_synced: fires once the log, as it is when called, is on the disk
    - options: where, and what a new broker has
    - role: a slave's tables are its master's
    """

    def __init__(
        self,
        clock: IReactorTime,
        fs: IFileSystem,
        worker: IWorker,
        log_synced: Callable[[], Deferred[None]],
        options: TableOptions,
        role: Role,
    ) -> None:
        self.topics = TopicConfigTable(clock, options.first, options.auto_create_topic)
        self.groups = SubscriptionGroupTable(clock, role, options.auto_create_group)
        self.offsets = ConsumerOffsetTable(clock)
        self.delays = DelayOffsets()
        self.filters = ConsumerFilterTable(clock, options.filters)

        def file(
            name: str, encode: Callable[[], bytes], *grounds: Callable[[], Deferred[None]]
        ) -> ConfigFile:
            return ConfigFile(fs, join(options.root, CONFIG_FOLDER, name), worker, encode, *grounds)

        topics = file("topics.json", self.topics.encode)
        groups = file("subscriptionGroup.json", self.groups.encode)
        offsets = file("consumerOffset.json", lambda: progress_text(self.offsets), log_synced)
        delays = file("delayOffset.json", self.delays.encode, log_synced)
        filters_file = file("consumerFilter.json", self.filters.encode)
        self._files: dict[ConfigFile, Callable[[bytes], None]] = {
            topics: self.topics.decode,
            groups: self.groups.decode,
            offsets: self.offsets.decode,
            delays: self.delays.decode,
            filters_file: self.filters.decode,
        }
        self.topics.on_change(topics.save)
        self.groups.on_change(groups.save)
        self.offsets.on_change(offsets.changed)
        # A slave's change once a sync, and what it has is all there is if its master is gone.
        self.delays.on_change(lambda: delays.save() if role.slave else delays.changed())
        self.filters.on_change(filters_file.changed)
        self.settings: tuple[ConfigFile, ...] = topics, groups
        """What has to be in its file before a change is confirmed."""
        self._others = [topics, groups, filters_file]
        self._flushers = (
            ConfigFlusher(clock, self._others),
            ConfigFlusher(clock, [offsets], options.offset_interval),
            ConfigFlusher(clock, [delays], options.delay_interval),
        )

    def keep(self, file: ConfigFile, decode: Callable[[bytes], None]) -> None:
        """Read and write another file together with these. Before `load`."""
        self._files[file] = decode
        self._others.append(file)

    def load(self) -> None:
        """Read the files; blocks. What is missing begins as RocketMQ's first start has it, and is written."""
        for file, decode in self._files.items():
            if not file.load(decode) and file in self.settings:
                file.changed()

    def start(self) -> None:
        """Start writing what changes."""
        for flusher in self._flushers:
            flusher.start()
            flusher.flush()

    def saved(self) -> Deferred[str | None]:
        """Fires when topics and groups, as they are now, are in their files: see `written`."""
        return written(self.settings)

    def stop(self) -> Deferred[None]:
        """Write what has changed; fires when it's on disk."""
        self.filters.stop()
        return gatherResults([flusher.stop() for flusher in self._flushers]).addCallback(lambda _: None)
