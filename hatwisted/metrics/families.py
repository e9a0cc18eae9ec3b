"""What a source of figures gives: families of samples, in steps.

A source is called for each scrape and returns an iterator of families; None between them is a place where the
reactor may see to something else, which belongs wherever a loop's length isn't small by nature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from hatwisted.timing.histogram import Histogram

Figures = Iterator[Metric | None]
Source = Callable[[], Figures]


def gauge(name: str, help_text: str, value: float) -> Metric:
    """One figure that rises and falls.

    - name: with its unit
    - help_text: one line
    - value: at present
    """
    return GaugeMetricFamily(name, help_text, value=value)


def counter(name: str, help_text: str, value: float) -> Metric:
    """One figure that only rises, but for a restart.

    - name: ends with _total
    - help_text: one line
    - value: since the start
    """
    return CounterMetricFamily(name, help_text, value=value)


def labelled(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    help_text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    """A family of figures.

    - kind: of all of them
    - name, help_text: as for `gauge` and `counter`
    - labels: their names
    - samples: values of the labels, and the figure
    """
    family = kind(name, help_text, labels=labels)
    for values, figure in samples:
        family.add_metric(values, figure)
    return family


def histograms(name: str, help_text: str, label: str, found: Mapping[str, Histogram]) -> Metric:
    """Several histograms as one family.

    - name: with its unit
    - help_text: one line
    - label: what tells them apart
    - found: its value -> histogram
    """
    family = HistogramMetricFamily(name, help_text, labels=[label])
    for value, histogram in found.items():
        buckets = [(floatToGoString(bound), count) for bound, count in histogram.cumulative()]
        family.add_metric([value], buckets, histogram.total)
    return family
