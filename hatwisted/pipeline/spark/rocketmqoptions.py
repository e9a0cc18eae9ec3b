"""The options of the source `rocketmq`: where the cluster is, what to read of it, and with which account."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hatwisted.blocking.settings import (
    ANSWER_TIMEOUT,
    CONNECT_TIMEOUT,
    READ_FROM,
    RETRIES,
    ClusterSettings,
)
from hatwisted.clientcore.address import split_addresses
from hatwisted.clientcore.credentialfile import find_credentials
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import NoRoute
from hatwisted.clientcore.tls import VERIFY, Tls
from hatwisted.clientcore.tlsfile import find_tls, wants_tls
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.spark.queueassignment import ASSIGN, Assignment, assignment
from hatwisted.pipeline.spark.queueoffsets import parse_offsets
from hatwisted.pipeline.spark.queuetimes import STRATEGY, places_by_time, time_of_all
from hatwisted.pipeline.spark.readoptions import CONDITION_OPTIONS, BadOption, OffsetBound, Options, Start
from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.expression import sql92_filter
from hatwisted.wire.consumerdata import TOOLS_GROUP
from hatwisted.wire.messagequeue import MessageQueue

NAME: Final = "rocketmq"
_TLS_OPTIONS: Final = ("tlsTrustFile", "tlsCertificate", "tlsKey", "tlsKeyPassword", "tlsVerify")
CLUSTER_OPTIONS: Final = (
    *("namesrvAddr", "readFrom", "group", "retries", "connectTimeoutMs", "answerTimeoutMs"),
    *("accessKey", "secretKey", "securityToken", "tls"),
    *_TLS_OPTIONS,
)
"""Where the cluster is and who asks: of reads and writes."""
OPTIONS: Final = (
    *CLUSTER_OPTIONS,
    *CONDITION_OPTIONS,
    *("topics", "topicsPattern", "startingOffsets", "endingOffsets", "failOnDataLoss"),
    *(ASSIGN, "minRecordsPerTrigger", "maxTriggerDelay"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", STRATEGY),
    *("startingTimestamp", "endingTimestamp"),
    *("schema", "includeHeaders"),
    *("columns", "minPartitions", "maxRecordsPerTrigger", "maxBytesPerTrigger", "brokerAwayMs"),
    "sql92",
)
BROKER_AWAY: Final = 300.0
"""Seconds for which a stream goes on without a group of brokers: as long as a machine takes to be replaced by
one that has its disk. Longer, and nobody may have noticed."""
_OTHER_NAMES: Final = {
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
    "minOffsetsPerTrigger": "minRecordsPerTrigger",
    "subscribe": "topics",
    "subscribePattern": "topicsPattern",
}
"""As Spark's source for Kafka calls it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which topics are read."""

    topics: tuple[str, ...]
    pattern: str | None
    assigned: Assignment | None = None
    """Only these queues of the topics."""

    def queues(self, cluster: ClusterReader) -> Queues:
        """Their queues now."""
        found = cluster.queues(self.topics, self.pattern)
        if self.assigned is not None:
            self.assigned.check(found)
        return self._chosen(found)

    def queues_left(self, cluster: ClusterReader) -> Queues:
        """The same of those topics that there are; NoRoute if there's none."""
        try:
            return self.queues(cluster)
        except NoRoute as error:
            found, _ = self.queues_now(cluster)
            if not found:
                raise
            _log.warning("%s: going on with the other topics: %s", NAME, error)
            return found

    def queues_now(self, cluster: ClusterReader) -> tuple[Queues, frozenset[str]]:
        """What one question finds of them, and the named topics that nobody knows."""
        found, unknown = cluster.queues_now(self.topics, self.pattern)
        return self._chosen(found), unknown

    def has(self, queue: MessageQueue) -> bool:
        """Is it one of those that are read, if it exists?"""
        if self.assigned is not None:
            return self.assigned.has(queue)
        by_name = self.pattern is not None and re.fullmatch(self.pattern, queue.topic)
        return queue.topic in self.topics or bool(by_name)

    def _chosen(self, queues: Queues) -> Queues:
        if self.assigned is None:
            return queues
        return {queue: replicas for queue, replicas in queues.items() if self.assigned.has(queue)}

    @classmethod
    def of(cls, options: Options) -> TopicChoice:
        """From the options; one of them has to be there."""
        topics, pattern = options.items("topics"), options.text("topicsPattern")
        assigned = assignment(options)
        if assigned is not None:
            if topics or pattern is not None:
                raise options.wrong(ASSIGN, "given without topics and topicsPattern: it names topics itself")
            return cls(assigned.topics, None, assigned)
        if not topics and pattern is None:
            raise BadOption(f"{NAME}: give topics (a list of names) or topicsPattern (a regular expression)")
        return cls(topics, pattern)


def rocketmq_options(given: Mapping[str, str]) -> Options:
    """The options as given; BadOption for unknown names."""
    return Options(NAME, given, OPTIONS, _OTHER_NAMES)


def cluster_settings(options: Options) -> ClusterSettings:
    """Where the cluster is, and the account."""
    servers = options.text("namesrvAddr")
    if servers is None:
        raise BadOption(f"{NAME}: option namesrvAddr is missing; give host:port of the name servers")
    retries = options.integer("retries")
    return ClusterSettings(
        name_servers=split_addresses(servers),
        group=options.text("group") or TOOLS_GROUP,
        read_from=options.choice("readFrom", READ_FROM, "slave"),
        connect_timeout=_seconds(options, "connectTimeoutMs", CONNECT_TIMEOUT),
        answer_timeout=_seconds(options, "answerTimeoutMs", ANSWER_TIMEOUT),
        retries=RETRIES if retries is None else retries,
        credentials=_credentials(options),
        tls=_tls(options),
    )


def broker_away(options: Options) -> float:
    """Seconds for which a group of brokers may be away from a stream."""
    return _seconds(options, "brokerAwayMs", BROKER_AWAY)


def sql_expression(options: Options) -> str | None:
    """The option sql92. Brokers don't refuse a pull whose expression they can't read, and give what they like."""
    text = options.text("sql92")
    if text is not None:
        try:
            sql92_filter(text)
        except Sql92Error as error:
            raise options.wrong(
                "sql92", f"a condition on properties, as a > 5 AND b = 'x' ({error})"
            ) from None
    return text


def place(options: Options, name: str, default: OffsetBound) -> Start:
    """An end, a time, or offsets or times by queue; the queues' names aren't checked yet.

    - options: of the read
    - name: of the option
    - default: if it isn't given
    """
    if (time := time_of_all(options, name)) is not None:
        return time
    times = places_by_time(options, name)
    start = options.start(name, default) if times is None else times
    if isinstance(start, dict):
        try:
            parse_offsets(start)
        except ValueError as error:
            raise options.wrong(
                name, f'offsets by topic, broker and queue, as {{"T": {{"broker-a": {{"0": 5}}}}}} ({error})'
            ) from None
    return start


def _seconds(options: Options, name: str, default: float) -> float:
    milliseconds = options.integer(name, least=1)
    return default if milliseconds is None else milliseconds / 1000


def _credentials(options: Options) -> Credentials | None:
    access, secret = options.text("accessKey"), options.text("secretKey")
    if access is None and secret is None:
        return find_credentials(os.environ, Path.home())
    if access is None or secret is None:
        raise BadOption(
            f"{NAME}: accessKey and secretKey must be given together; {_missing(access)} is missing"
        )
    return Credentials(access, secret, options.text("securityToken"))


def _missing(access: str | None) -> str:
    return "accessKey" if access is None else "secretKey"


def _tls(options: Options) -> Tls | None:
    """As the options say; if they say no more than that it's wanted, as the user's file does."""
    given = [name for name in _TLS_OPTIONS if options.text(name) is not None]
    if not options.flag("tls", bool(given) or wants_tls(os.environ)):
        if given:
            raise BadOption(f"{NAME}: {given[0]} and tls=false contradict each other; leave one of them out")
        return None
    verify = options.choice("tlsVerify", VERIFY, "full")
    if not {*given} - {"tlsVerify"}:
        return find_tls(os.environ, Path.home(), verify if given else None)
    return Tls(
        trust_file=options.text("tlsTrustFile"),
        certificate=options.text("tlsCertificate"),
        key=options.text("tlsKey"),
        key_password=options.text("tlsKeyPassword"),
        verify=verify,
    )
