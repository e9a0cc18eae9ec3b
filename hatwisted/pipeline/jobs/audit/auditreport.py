"""An audit's result as one HTML page with everything inside.

A drawing shows every copy as a bar over the log's offsets, with defects marked, wide enough to be seen
however small they are; tables give the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hatwisted.pipeline.jobs.audit.auditresult import AuditResult, Copy, RangeDifference
from hatwisted.pipeline.jobs.htmlpage import Cell, Tile, document, escape, figure, table, tiles, warning

WIDTH: Final = 1100
"""Of the drawing, in SVG units."""
ROW: Final = 44
NAME: Final = 16
BAR: Final = 18
LEAST_MARK: Final = 2.5
"""Width of the mark of a single byte."""

Rows = list[Sequence[str | Cell]]


def audit_page(result: AuditResult, title: str = "Audit of a commit log") -> str:
    """The page."""
    parts = [("", _head(result)), *_sections(result)]
    under = f"Physical offsets {result.begin:,} to {result.end:,}"
    rate = result.bytes_read / result.seconds / 1e6 if result.seconds else 0.0
    foot = f"{result.bytes_read:,} bytes read in {result.seconds:.1f} s, {rate:,.0f} MB/s"
    return document(title, under, parts, foot)


def _head(result: AuditResult) -> str:
    mood = "good" if result.identical else "bad"
    shown = tiles(
        (
            Tile("Copies", "identical" if result.identical else "not identical", "", mood),
            Tile("Same up to offset", f"{result.identical_up_to:,}", f"of {result.end:,}", mood),
            Tile("Records", f"{result.records:,}", f"of {result.queues:,} queues"),
            Tile("Differing ranges", f"{len(result.differences) + result.unlisted:,}"),
            Tile("Damaged ranges", f"{result.damage_count:,}"),
            Tile("Queue breaks", f"{result.break_count:,}"),
        )
    )
    verdict = "" if result.identical else warning(result.verdict[:1].upper() + result.verdict[1:] + ".")
    drawn = figure(
        "The copies", "What each holds, by physical offset; defects are marked", _bars(result), True
    )
    return shown + verdict + f'<div style="margin-top:14px">{drawn}</div>'


# -- the drawing ---------------------------------------------------------------------------------------------


def _bars(result: AuditResult) -> str:
    first = min([result.begin] + [copy.min_offset for copy in result.copies])
    last = max([result.end, first + 1] + [copy.end + copy.torn_bytes for copy in result.copies])
    rows = "".join(_Bar(row * ROW, first, last).drawn(result, copy) for row, copy in enumerate(result.copies))
    return f'<svg viewBox="0 0 {WIDTH} {ROW * len(result.copies)}" role="img">{rows}</svg>'


class _Bar:
    """One copy's row: its name, what it holds, and what is wrong with it."""

    def __init__(self, top: int, first: int, last: int) -> None:
        self._top = top
        self._first = first
        self._scale = WIDTH / (last - first)

    def drawn(self, result: AuditResult, copy: Copy) -> str:
        """As SVG."""
        style = 'font-size="12" fill="var(--ink)"'
        name = f'<text x="0" y="{self._top + NAME - 4}" {style}>{escape(copy.name)}</text>'
        held = self._box(copy.min_offset, copy.end, "--series-1", 0, f"{copy.min_offset:,} to {copy.end:,}")
        return name + held + "".join(self._marks(result, copy))

    def _marks(self, result: AuditResult, copy: Copy) -> Iterator[str]:
        if copy.torn_bytes:
            said = f"torn tail of {copy.torn_bytes:,} bytes"
            yield self._box(copy.end, copy.end + copy.torn_bytes, "--series-5", LEAST_MARK, said)
        for found in result.differences:
            if found.copy == copy.name:
                yield self._box(found.begin, found.end, "--warm", LEAST_MARK, str(found))
        for bad in result.damaged:
            if bad.copy == copy.name or bad.everywhere:
                yield self._box(bad.begin, bad.end, "--warm", LEAST_MARK, f"damaged: {bad.reason}")

    def _box(self, begin: int, end: int, colour: str, least: float, said: str) -> str:
        left = min((begin - self._first) * self._scale, WIDTH - least)
        width = max((end - begin) * self._scale, least)
        return (
            f'<rect x="{left:.2f}" y="{self._top + NAME}" width="{width:.2f}" height="{BAR}" '
            f'fill="var({colour})"><title>{escape(said)}</title></rect>'
        )


# -- the tables ----------------------------------------------------------------------------------------------


def _sections(result: AuditResult) -> Iterator[tuple[str, str]]:
    """(heading, HTML) of what there is to report."""
    heads = ("Copy", "Kind", "Begins at", "Ends at", "Torn tail, bytes")
    rows: Rows = [
        (copy.name, copy.kind, *map(_number, (copy.min_offset, copy.end, copy.torn_bytes)))
        for copy in result.copies
    ]
    yield "Copies", table(heads, rows, 2)
    if result.differences:
        yield "Differences", _differences(result)
    if result.damaged:
        yield "Damage", _damage(result)
    if result.damage_rows:
        yield "Rows of damage", _damage_rows(result)
    if result.breaks:
        yield "Queue breaks", _breaks(result)
    if result.notes:
        yield "Notes", "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in result.notes) + "</ul>"


def _differences(result: AuditResult) -> str:
    heads = ("Copy", "Against", "What", "First record", "First byte is in")
    numbers = ("First byte", "Begin", "End", "Records")
    rows: Rows = [
        (
            *(found.copy, found.reference, found.kind.value + (" (ends there)" if found.lag else "")),
            *(_place(found), f"{found.field} + {found.position}" if found.field else ""),
            *map(_number, (found.first_byte, found.begin, found.end, found.records)),
        )
        for found in result.differences
    ]
    more = f"And {result.unlisted:,} further ranges." if result.unlisted else ""
    return table((*heads, *numbers), rows, len(heads), more)


def _place(found: RangeDifference) -> str:
    place = found.record
    return f"{place.topic}/{place.queue_id} at {place.queue_offset:,}" if place and place.topic else ""


def _damage(result: AuditResult) -> str:
    rows: Rows = [
        (
            *(bad.copy, "the same" if bad.everywhere else "differ", bad.reason),
            *map(_number, (bad.begin, bad.end)),
        )
        for bad in result.damaged
    ]
    return table(("Copy", "Other copies", "Why it isn't a record", "Begin", "End"), rows, 3)


def _damage_rows(result: AuditResult) -> str:
    rows: Rows = [(row.copy, *map(_number, (row.begin, row.end))) for row in result.damage_rows]
    more = f"And {result.unlisted_damage_rows:,} further rows." if result.unlisted_damage_rows else ""
    return table(("Table, where the log has the same damage", "Begin", "End"), rows, 1, more)


def _breaks(result: AuditResult) -> str:
    heads = ("Queue", "What", "Expected", "Found", "Missing", "Log offset before", "Behind")
    rows: Rows = [
        (
            *(f"{each.topic}/{each.queue_id}", each.kind),
            *map(_number, (each.expected, each.found, each.missing, each.after, each.before)),
        )
        for each in result.breaks
    ]
    return table(heads, rows, 2)


def _number(value: int) -> Cell:
    return Cell(f"{value:,}", value)
