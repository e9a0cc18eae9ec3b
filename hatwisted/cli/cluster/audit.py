"""`hatwisted audit`: is a running slave's log, byte by byte, what its master has?

Both brokers are asked for digests of their logs, as far as both hold them, while they go on working; see
`logcodec.logdrift`. RocketMQ's brokers know no such request: their stores are compared by `hatwisted log
compare`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from hatwisted.cli.cluster.clusteraccount import credentials_option
from hatwisted.cli.cluster.clusterrun import Interrupt, run
from hatwisted.cli.cluster.clustertls import tls_options
from hatwisted.cli.cluster.namesrvoption import DEFAULT_NAMESRV
from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.optionvalues import Size
from hatwisted.cli.output import echo_json, json_option
from hatwisted.cli.progressbar import ScanProgress
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.answers import decoded
from hatwisted.clientcore.errors import BadAnswer, ClientError, Refused
from hatwisted.logcodec import logdrift
from hatwisted.logcodec.logdrift import SPAN, DriftedRecord, Rotten, differing_ranges, judged_records
from hatwisted.remoting.deferreds import all_of
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import (
    DIGEST_SIZE,
    BytesWanted,
    DigestsWanted,
    LogRange,
    parse_begin,
    span_fields,
)
from hatwisted.wire.printable import printable
from hatwisted.wire.quantities import size_text

if TYPE_CHECKING:
    from hatwisted.wire.remoting import RemotingCommand

RATE: Final = 64 << 20
"""Bytes of each log read a second by default."""
TIMEOUT: Final = 30.0
"""Seconds for one answer: a slow disk reads 16 MiB for it."""
BUSY_WAIT: Final = 1.0
"""Seconds until a broker that is busy is asked again."""
BUSY_TRIES: Final = 30
MOST_DIFFERENCES: Final = 100
"""Ranges after which no more are looked for: logs that differ in this many places aren't copies."""
MOST_RECORDS: Final = 1024
"""Records that differ, likewise."""


_NO_CHECKSUMS: Final = (
    "{address} can't checksum its log (RocketMQ's brokers can't): compare copies of both stores with "
    "'hatwisted log compare'"
)
_UNABLE: Final = {
    RequestCode.LOG_DIGESTS: _NO_CHECKSUMS,
    RequestCode.READ_LOG: _NO_CHECKSUMS,
    RequestCode.REPAIR_LOG: "{address} is no slave: name the master first, then its slave",
}


class Difference(msgspec.Struct, rename="camel", kw_only=True):
    """Bytes [begin, end) span the first and the last byte that differ. records: those they belong to; none if
    they lie in the padding at a file's end. problem: why they couldn't be repaired; None: nothing kept it."""

    begin: int
    end: int
    records: list[dict[str, Any]]
    problem: str | None = None

    @property
    def repaired(self) -> bool:
        """Has every record that differed been overwritten on the slave?"""
        return bool(self.records) and all(each.get("sideFile") for each in self.records)


class LogAudit(msgspec.Struct, rename="camel", kw_only=True):
    """What was found. [begin, end): the range compared; complete: is that all that both held? expired: bytes of it
    that were deleted before they could be compared."""

    master: str
    slave: str
    begin: int
    end: int
    complete: bool = True
    expired: int = 0
    differences: list[Difference] = []

    @property
    def is_much(self) -> bool:
        """Is it so much that no more is looked for?"""
        records = sum(len(each.records) for each in self.differences)
        return len(self.differences) >= MOST_DIFFERENCES or records >= MOST_RECORDS


@click.command("audit", cls=Command)
@click.argument("master", metavar="MASTER")
@click.argument("slave", metavar="SLAVE")
@click.option(
    "--from", "first", type=click.IntRange(0), help="Start at this offset instead of the first one."
)
@click.option(
    "--to", "last", type=click.IntRange(1), help="Stop at this offset instead of the end of the log."
)
@click.option(
    "--repair",
    is_flag=True,
    help="Have the slave overwrite its rotten records with the master's intact ones.",
)
@click.option("--rate", type=Size(), default=RATE, help="Bytes of each log read a second (64m).")
@credentials_option
@tls_options
@json_option
def audit(
    master: str, slave: str, first: int | None, last: int | None, repair: bool, rate: int, as_json: bool
) -> None:
    """Compare the logs of a running master and slave, each HOST:PORT.

    Every byte that both hold is compared, by checksums that the brokers make; both go on working. For what
    differs, the exact range is shown with the records in it, and which copy of them is rotten. Nothing is
    written without --repair; the slave then keeps the old bytes under 'repair' in its store's folder.
    ('pipeline audit' compares the contents of stores as tables, 'log compare' two stores on disk.)

    Exit codes: 0 equal, or all repaired; 1 they differ; 2 not done: wrong usage, no answer, or a broker that
    isn't hatwisted's.
    """

    async def work(link: Cluster, interrupt: Interrupt) -> int:
        pair = BrokerPair(link, master, slave)
        found = await compare(pair, (first, last), rate, interrupt)
        if repair:
            for each in found.differences:
                try:
                    await pair.repair(each)
                except ClientError as error:  # what has been repaired is to be known all the same
                    each.problem = str(error)
        if as_json:
            echo_json(found)
        else:
            for line in audit_lines(found):
                click.echo(printable(line))
        if not all(each.repaired for each in found.differences):
            return EXIT_PROBLEMS
        if found.complete:
            return EXIT_OK
        # Else there were too many differences to look further: nobody knows how it is after them.
        return EXIT_INTERRUPTED if interrupt.requested else EXIT_PROBLEMS

    sys.exit(run(DEFAULT_NAMESRV, work))


class _Repaired(msgspec.Struct, rename="camel"):
    """What became of a record."""

    begin: int
    side_file: str


class _Repair(msgspec.Struct):
    """A slave's answer to a repair."""

    records: list[_Repaired]


class BrokerPair:
    """A LogPair: two running brokers.

    - link: asks them
    - master, slave: their remoting addresses
    """

    def __init__(self, link: Cluster, master: str, slave: str) -> None:
        self._link = link
        self.addresses = master, slave
        self.span = LogRange(0, 0)
        """What both held when last asked."""

    async def look(self) -> LogRange:
        """Ask both what they hold."""
        infos = await all_of(*(self._link.admin().broker_info(each) for each in self.addresses))
        spans = [(int(info["commitLogMinOffset"]), int(info["commitLogMaxOffset"])) for info in infos]
        self.span = LogRange(max(begin for begin, _ in spans), min(end for _, end in spans))
        return self.span

    async def pause(self, seconds: float) -> None:
        """Wait this many seconds."""
        await deferLater(self._link.clock, seconds)

    @property
    def seconds(self) -> float:
        """Now."""
        return self._link.clock.seconds()

    async def digests(self, span: LogRange, block: int) -> tuple[bytes, bytes]:
        """See LogPair."""
        expected = -(-(span.end - span.begin) // block) * DIGEST_SIZE
        answers = await self._ask(RequestCode.LOG_DIGESTS, DigestsWanted(span, block).to_ext())
        for address, answer in zip(self.addresses, answers, strict=True):
            if len(answer.body) != expected:
                raise BadAnswer(f"{address}: {len(answer.body)} bytes of digests, not {expected}")
        return answers[0].body, answers[1].body

    async def read(self, span: LogRange) -> tuple[bytes, bytes]:
        """See LogPair."""
        held = span.below(self.span.end)
        if held is None:
            return b"", b""
        one, other = await self._ask(RequestCode.READ_LOG, BytesWanted(held).to_ext())
        return one.body, other.body

    async def record_starts(self, offset: int) -> tuple[int, int]:
        """See LogPair."""
        wanted = BytesWanted(LogRange(offset, offset + 1), record=True)
        one, other = await self._ask(RequestCode.READ_LOG, wanted.to_ext())
        return parse_begin(one.ext), parse_begin(other.ext)

    async def repair(self, difference: Difference) -> None:
        """Have the slave overwrite its rotten records there, and note where it keeps the old bytes."""
        if not any(each["rotten"] == Rotten.SLAVE.value for each in difference.records):
            return
        span = LogRange(difference.begin, difference.end)
        slave = self.addresses[1]
        answer = decoded(
            slave, await self._ask_one(slave, RequestCode.REPAIR_LOG, span_fields(span)), _Repair
        )
        kept = {each.begin: each.side_file for each in answer.records}
        for each in difference.records:
            each["sideFile"] = kept.get(each["begin"]) or None

    async def _ask(self, code: RequestCode, ext: dict[str, str]) -> list[RemotingCommand]:
        return await all_of(
            *(Deferred.fromCoroutine(self._ask_one(each, code, ext)) for each in self.addresses)
        )

    async def _ask_one(self, address: str, code: RequestCode, ext: dict[str, str]) -> RemotingCommand:
        for _ in range(BUSY_TRIES):
            answer = await deferred(self._link.session.call(address, code, ext, timeout=TIMEOUT))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise CannotRun(_UNABLE[code].format(address=address))
            if answer.code == ResponseCode.SUCCESS:
                return answer
            if answer.code != ResponseCode.SYSTEM_BUSY:
                break
            await self.pause(BUSY_WAIT)
        raise Refused.of(address, answer)


async def compare(
    pair: BrokerPair, wanted: tuple[int | None, int | None], rate: int, interrupt: Interrupt
) -> LogAudit:
    """Compare two brokers' logs. Raises CannotRun if they share no offset.

    - pair: the brokers
    - wanted: first and last offset, None: as far as both go
    - rate: bytes a second
    - interrupt: ends it early
    """
    held = await pair.look()
    begin, end = max(held.begin, wanted[0] or 0), min(held.end, wanted[1] or held.end)
    if begin >= end:
        raise CannotRun(f"nothing to compare: both logs hold offsets {held.begin} to {held.end}")
    found = LogAudit(master=pair.addresses[0], slave=pair.addresses[1], begin=begin, end=end, differences=[])
    at, read, started = begin, 0, pair.seconds
    with ScanProgress("audit", begin, end) as progress:
        while at < end and not interrupt.requested and not found.is_much:
            span = LogRange(at, min(at + SPAN, end))
            try:
                reached = await _compare_span(pair, span, found)
            except Refused as error:
                if error.code != ResponseCode.PULL_OFFSET_MOVED or (await pair.look()).begin <= at:
                    raise
                at = _after_expired(found, at, min(pair.span.begin, end))
                continue
            read += reached - at
            at = reached
            progress(at)
            await pair.pause(max(0.0, started + read / rate - pair.seconds))
    if found.begin >= end:
        raise CannotRun("nothing to compare any more: what both logs held has expired meanwhile")
    found.end, found.complete = at, at >= end
    return found


def _after_expired(found: LogAudit, at: int, begin: int) -> int:
    """Where it goes on once the logs begin at `begin`, after `at`."""
    if at == found.begin:
        found.begin = begin
    else:
        found.expired += begin - at
    return begin


async def _compare_span(pair: BrokerPair, span: LogRange, found: LogAudit) -> int:
    """Up to where it was compared."""
    for each in await differing_ranges(pair, span):
        records = await judged_records(pair, each)
        # Of a long range a part is judged at a time; the rest is looked at anew.
        end = min(each.end, records[-1].end) if len(records) >= logdrift.MOST_JUDGED else each.end
        fields = [record_fields(record) for record in records]
        found.differences.append(Difference(begin=each.begin, end=end, records=fields))
        if end < each.end or found.is_much:
            return min(end, span.end)
    return span.end


def record_fields(record: DriftedRecord) -> dict[str, Any]:
    """A record, for JSON."""
    return {
        "begin": record.begin,
        "end": record.end,
        "rotten": record.rotten.value,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
    }


_VERDICTS: Final = {
    Rotten.MASTER.value: "the master's copy is rotten",
    Rotten.SLAVE.value: "the slave's copy is rotten",
    Rotten.BOTH.value: "neither copy is a valid record",
    Rotten.UNDECIDED.value: "both copies are valid, and differ: nothing in the log says which is right",
}


def _name(record: dict[str, Any]) -> str:
    if record["topic"] is None:
        return "no message"
    return f"{record['topic']}, queue {record['queueId']}, offset {record['queueOffset']}"


def audit_lines(found: LogAudit) -> Iterator[str]:
    """The result, a line at a time."""
    compared = f"offsets {found.begin} to {found.end} ({size_text(found.end - found.begin)})"
    for each in found.differences:
        yield f"differ: bytes {each.begin} to {each.end}"
        for record in each.records:
            yield f"  {record['begin']} to {record['end']}: {_name(record)}: {_VERDICTS[record['rotten']]}"
            if record.get("sideFile"):
                yield f"  repaired; the slave keeps the old bytes in {record['sideFile']}"
        if each.problem is not None:
            yield f"  not repaired: {each.problem}"
        if not each.records:
            yield "  no record: padding at a file's end"
    if found.differences:
        count = len(found.differences)
        yield f"{compared}: {count} {'range differs' if count == 1 else 'ranges differ'}"
        if found.is_much:
            yield "there may be more; copies that differ so often have diverged: see 'hatwisted log compare'"
    else:
        yield f"{compared}: equal"
    if found.expired:
        yield f"{size_text(found.expired)} in between expired before they were compared"
    if not found.complete:
        yield "not everything was compared"
