"""The report's plots drawn: each as SVG for the page and as SVG and PNG files.

Colours are those of `plotstyle`'s palette. In the page's copy every one is replaced by the CSS variable of its
role, so that the plots follow the reader's light or dark theme as the page does; files keep the light colours.
Drawing twice was rejected: a page would be twice as big, and a theme that is switched by hand would show the wrong
one.

Nothing here imports pyplot: figures are made and dropped without global state, in any thread.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from hatwisted.pipeline.jobs.report.plotsheets import SHEETS, WIDE, Sheet
from hatwisted.pipeline.jobs.report.plotstyle import ROLES, STYLE, SURFACE
from hatwisted.pipeline.jobs.report.reportsummary import Summary
from hatwisted.wire.printable import printable

PNG_DPI: Final = 160


@dataclass(frozen=True)
class Plot:
    """One drawn plot. `svg`: for the page; `wide`: does it take a row of its own?; `note`: how to read it."""

    name: str
    title: str
    note: str
    wide: bool
    svg: str
    file_svg: bytes
    png: bytes


def draw_plots(summary: Summary, progress: Callable[[int, int], None] | None = None) -> list[Plot]:
    """All plots that the summary has something for."""
    wanted = [sheet for sheet in SHEETS if sheet.fits(summary)]
    plots = []
    for number, sheet in enumerate(wanted, 1):
        plots.append(_drawn(sheet, summary))
        if progress is not None:
            progress(number, len(wanted))
    return plots


def save_plots(plots: Sequence[Plot], folder: Path) -> list[str]:
    """Each as NAME.svg and NAME.png; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for plot in plots:
        for suffix, data in (("svg", plot.file_svg), ("png", plot.png)):
            path = folder / f"{plot.name}.{suffix}"
            path.write_bytes(data)
            paths.append(str(path))
    return paths


def _drawn(sheet: Sheet, summary: Summary) -> Plot:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": sheet.name}):
        figure = Figure(figsize=sheet.size, layout="constrained")
        sheet.draw(figure, summary)
        vector, pixels = io.BytesIO(), io.BytesIO()
        FigureCanvasSVG(figure).print_svg(vector, metadata={"Date": None, "Title": sheet.title})
        figure.set_facecolor(SURFACE)
        FigureCanvasAgg(figure)
        figure.savefig(pixels, format="png", dpi=PNG_DPI, metadata={"Title": sheet.title, "Software": None})
    drawn = printable(vector.getvalue().decode(), keep="\n\t")
    return Plot(
        name=sheet.name,
        title=sheet.title,
        note=sheet.note,
        wide=sheet.size == WIDE,
        svg=themed(drawn, sheet.name, sheet.title),
        file_svg=drawn.encode(),
        png=pixels.getvalue(),
    )


def themed(svg: str, name: str, title: str) -> str:
    """The SVG for a page: colours and fonts by CSS variables, as wide as its place.

    - svg: as drawn
    - name: prefix of its ids, so that they are its own
    - title: for screen readers
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    svg = re.sub(r"#[0-9a-f]{6}", lambda found: _variable(found[0]), svg)
    svg = re.sub(r"font: ([^;\"]*?)([\d.]+px) [^;\"]*", r"font: \1\2 var(--sans)", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return re.sub(r'href="#', f'href="#{name}-', svg)


def _variable(colour: str) -> str:
    role = ROLES.get(colour)
    return colour if role is None else f"var(--{role})"
