"""Self-contained pages: tiles, figures and tables as HTML, light or dark as the reader prefers.

The colours of `STYLE` are variables; the palette of `plotstyle` maps to the same ones. Columns can be sorted by a
click on their head, which is all the script does: without it the page shows the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as escaped
from typing import Final

from hatwisted.wire.printable import printable

BEGIN: Final = "<!doctype html>"
"""Of a page's file."""
STYLE: Final = """
:root {
  color-scheme: light dark;
  --sans: "Inter", "Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace;
  --page: #f4f6f9; --surface: #ffffff; --ink: #1c2230; --muted: #5d6678; --grid: #dfe3ea; --rest: #9aa3b2;
  --warm: #c8312b; --good: #12855f; --series-1: #2563c9; --series-2: #d9601a; --series-3: #12855f;
  --series-4: #a4368c; --series-5: #b98900; --series-6: #5a4fcf; --series-7: #0c88a4;
  --shade: 0 1px 2px rgb(20 30 60 / .06), 0 4px 16px rgb(20 30 60 / .05);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141b; --surface: #181d26; --ink: #e6e9ef; --muted: #9aa4b5; --grid: #2c3442; --rest: #667085;
    --warm: #ff7b72; --good: #4cc38a; --series-1: #6ea8ff; --series-2: #ff9d5c; --series-3: #4cc38a;
    --series-4: #e07cc8; --series-5: #e3b93c; --series-6: #a79dff; --series-7: #46c3dd;
    --shade: 0 0 0 1px rgb(255 255 255 / .04);
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 var(--sans); }
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 64px; }
header p { margin: 6px 0 0; color: var(--muted); }
h1 { margin: 0; font-size: 28px; line-height: 1.2; letter-spacing: -.02em; }
h2 { margin: 44px 0 14px; font-size: 18px; letter-spacing: -.01em; }
h3 { margin: 0; font-size: 14px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 16px; font-size: 14px; }
a { color: var(--series-1); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font: .92em var(--mono); overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 14px; margin-top: 28px; }
.tile, figure, .scroll, .word { background: var(--surface); border-radius: 12px; box-shadow: var(--shade); }
.tile { padding: 14px 16px; }
.tile span { display: block; color: var(--muted); font-size: 13px; }
.tile strong { display: block; margin: 2px 0; font-size: 23px; font-weight: 650; line-height: 1.3;
  letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.tile.bad strong, .bad td.mark { color: var(--warm); }
.tile.good strong { color: var(--good); }
.word { margin-top: 14px; padding: 12px 16px; border-left: 4px solid var(--warm); }
.figures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 14px; }
figure { margin: 0; padding: 16px 16px 10px; grid-column: span 1; }
figure.wide { grid-column: 1 / -1; }
figcaption { margin-bottom: 8px; }
figcaption p, .note { margin: 2px 0 0; color: var(--muted); font-size: 13px; }
figure svg { display: block; width: 100%; height: auto; }
.scroll { overflow: auto; max-height: 620px; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 6px; text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
td.text { white-space: normal; overflow-wrap: anywhere; }
th { position: sticky; top: 0; background: var(--surface); color: var(--muted); font-weight: 600; font-size: 13px;
  cursor: pointer; border-bottom: 1px solid var(--grid); }
th[aria-sort=ascending]::after { content: " ↑"; }
th[aria-sort=descending]::after { content: " ↓"; }
td { border-top: 1px solid var(--grid); }
tbody tr:first-child td { border-top: 0; }
tbody tr:hover td { background: color-mix(in srgb, var(--series-1) 7%, transparent); }
th.text, td.text { text-align: left; }
td.text { font-family: var(--mono); font-size: 12px; }
.share { display: inline-block; width: 48px; height: 6px; margin-left: 6px; border-radius: 3px;
  background: var(--grid); vertical-align: middle; overflow: hidden; }
.share i { display: block; height: 100%; background: var(--series-1); }
footer { margin-top: 44px; color: var(--muted); font-size: 13px; }
@media (max-width: 760px) {
  .figures { grid-template-columns: minmax(0, 1fr); }
  figure.wide { overflow-x: auto; }
  figure.wide svg { width: 760px; }
  main { padding: 24px 14px 40px; }
}
@media print { body { background: #fff; } .scroll { max-height: none; } figure, tr { break-inside: avoid; } }
"""

SCRIPT: Final = """
for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const table = head.closest("table"), rows = [...table.tBodies[0].rows];
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = row => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
  rows.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    const order = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
});
"""

UNBROKEN: Final = 16
"""Letters of a name."""


@dataclass(frozen=True)
class Cell:
    """A cell: what it shows, what it sorts by if that isn't the text, and a share of 1, shown as a bar."""

    text: str
    value: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Tile:
    """One figure at the page's head. mood: "good", "bad" or ""."""

    label: str
    figure: str
    detail: str = ""
    mood: str = ""


def escape(text: str) -> str:
    """Text as HTML. What is named in it turns no text around, and is seen."""
    return escaped(printable(text, keep="\n\t"))


def document(title: str, under: str, parts: Sequence[tuple[str, str]], foot: str) -> str:
    """A whole page.

    - title: of the page
    - under: HTML below it
    - parts: (heading, HTML); those without a heading come first
    - foot: HTML at the end
    """
    named = [(f"part-{number}", heading, html) for number, (heading, html) in enumerate(parts)]
    links = "".join(f'<a href="#{mark}">{escape(heading)}</a>' for mark, heading, _ in named if heading)
    body = "".join(
        (f'<section><h2 id="{mark}">{escape(heading)}</h2>{html}</section>' if heading else html)
        for mark, heading, html in named
    )
    return (
        f'{BEGIN}\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{under}</p><nav>{links}</nav></header>{body}"
        f"<footer>{foot}</footer></main><script>{SCRIPT}</script></body></html>\n"
    )


def tiles(found: Iterable[Tile]) -> str:
    """The figures at the head."""
    inner = "".join(
        f'<div class="tile {each.mood}"><span>{escape(each.label)}</span>'
        f"<strong>{escape(each.figure)}</strong><span>{escape(each.detail)}</span></div>"
        for each in found
    )
    return f'<div class="tiles">{inner}</div>'


def figure(title: str, note: str, svg: str, wide: bool) -> str:
    """A plot with its title.

    - title: text
    - note: text below it
    - svg: the plot, as it is
    - wide: across the whole page
    """
    noted = f"<p>{escape(note)}</p>" if note else ""
    kind = ' class="wide"' if wide else ""
    return f"<figure{kind}><figcaption><h3>{escape(title)}</h3>{noted}</figcaption>{svg}</figure>"


def figures(found: Iterable[str]) -> str:
    """Figures side by side where they fit."""
    return f'<div class="figures">{"".join(found)}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Cell]], texts: int, note: str = "") -> str:
    """A table.

    - heads: of the columns
    - rows: cells
    - texts: how many of the first columns are texts; the others are numbers
    - note: text below it
    """
    head = "".join(
        f'<th scope="col"{_kind(number, texts)}>{escape(name)}</th>' for number, name in enumerate(heads)
    )
    body = "".join(
        f"<tr>{''.join(_cell(cell, number, texts) for number, cell in enumerate(row))}</tr>" for row in rows
    )
    noted = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{noted}'
    )


def warning(text: str) -> str:
    """Something the reader must see."""
    return f'<p class="word">{escape(text)}</p>'


def _cell(cell: str | Cell, number: int, texts: int) -> str:
    if isinstance(cell, str):
        cell = Cell(cell)
    value = "" if cell.value is None else f' data-value="{cell.value}"'
    bar = ""
    if cell.share is not None:
        bar = f'<span class="share"><i style="width:{100 * cell.share:.1f}%"></i></span>'
    # A short name stays whole; a long one is broken anywhere, so that the figures have room.
    least = f' style="min-width:{min(len(cell.text), UNBROKEN) + 2}ch"' if number < texts else ""
    return f"<td{_kind(number, texts)}{least}{value}>{escape(cell.text)}{bar}</td>"


def _kind(number: int, texts: int) -> str:
    return ' class="text"' if number < texts else ""
