"""Horizontal bars on a logarithmic scale, as an SVG for light and dark themes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.harness.statistics import Spread
from benchmarks.harness.table import number

WIDTH, LABELS, FIGURES = 860, 230, 130
ROW, BAR, TOP, BOTTOM = 30, 16, 64, 36
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}"
    ".quiet{fill:#57606a}"
    ".bar{fill:#8c959f}.ours{fill:#0969da}.grid{stroke:#d0d7de}.spread{stroke:#24292f;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.grid{stroke:#3d444d}"
    ".spread{stroke:#e6edf3}.bar{fill:#656c76}.ours{fill:#4493f8}}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: Spread
    ours: bool = False


def bar_chart(title: str, subtitle: str, unit: str, bars: Sequence[Bar]) -> str:
    """Bars as long as the logarithm of their median, with a line over the quartiles."""
    low, high = _decades(bars)
    height = TOP + ROW * len(bars) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        f'<text class="quiet" x="12" y="44">{escape(subtitle)}</text>',
        *_grid(low, high, height, unit),
    ]
    for place, bar in enumerate(bars):
        parts += _bar(bar, TOP + ROW * place, low, high)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(bars: Sequence[Bar]) -> tuple[int, int]:
    low = math.floor(math.log10(min(bar.value.low for bar in bars)))
    high = math.ceil(math.log10(max(bar.value.high for bar in bars)))
    return low, max(high, low + 1)


def _x(value: float, low: int, high: int) -> float:
    share = (math.log10(value) - low) / (high - low)
    return LABELS + share * (WIDTH - LABELS - FIGURES)


def _grid(low: int, high: int, height: int, unit: str) -> list[str]:
    lines = []
    for decade in range(low, high + 1):
        x = _x(10.0**decade, low, high)
        label = f'x="{x:.1f}" y="{height - 14}" text-anchor="middle"'
        lines += [
            f'<line class="grid" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM + 4}"/>',
            f'<text class="quiet" {label}>{number(10.0**decade)}</text>',
        ]
    return [
        *lines,
        f'<text class="quiet" x="12" y="{height - 14}">{escape(unit)}, each line ten times</text>',
    ]


def _bar(bar: Bar, y: int, low: int, high: int) -> list[str]:
    middle = y + BAR / 2
    start, end, high_end = (
        _x(value, low, high) for value in (bar.value.low, bar.value.median, bar.value.high)
    )
    kind, width = "ours" if bar.ours else "bar", max(end - LABELS, 1)
    return [
        f'<text x="{LABELS - 10}" y="{middle + 5}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>',
        f'<line class="spread" x1="{start:.1f}" y1="{middle}" x2="{high_end:.1f}" y2="{middle}"/>',
        f'<text x="{max(end, high_end) + 8:.1f}" y="{middle + 5}">{number(bar.value.median)}</text>',
    ]
