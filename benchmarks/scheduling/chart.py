"""The p95 wait of each tier under each policy, on a logarithmic scale: a panel for each scenario."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.harness.chart import STYLE
from benchmarks.scheduling.figures import Figures
from benchmarks.scheduling.measurements import BEACON, LoadFigures
from benchmarks.scheduling.workload import TIERS

WIDTH, LABELS, RIGHT = 860, 150, 30
TOP, HEAD, ROW, GAP, FOOT = 92, 22, 24, 14, 34
SUBTITLE = "seconds, logarithmic; GPUs 90 % loaded under Beacon"
COLOURS = ("#cf222e", "#bf8700", "#1a7f37", "#0969da", "#8250df")
MIN_DECADE, MAX_DECADE = -1, 4
"""A tenth of a second to ten thousand."""


def waits_chart(found: Sequence[LoadFigures]) -> str:
    rows = sum(len(scenario.policies) for scenario in found)
    height = TOP + rows * ROW + len(found) * (HEAD + GAP) + FOOT
    title = "p95 wait per tier, by scheduling policy"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="12" y="24">{title}</text>',
        f'<text class="quiet" x="12" y="44">{SUBTITLE}</text>',
        *_legend(),
        *_grid(height),
    ]
    y = TOP
    for scenario in found:
        parts.append(f'<text class="quiet" x="12" y="{y + 14}">{escape(scenario.scenario)}</text>')
        y += HEAD
        for name, figures in scenario.policies.items():
            parts += _row(name, figures, y)
            y += ROW
        y += GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    return [
        part
        for place, (tier, colour) in enumerate(zip(TIERS, COLOURS, strict=True))
        for part in (
            f'<circle cx="{LABELS + 110 * place}" cy="64" r="5" fill="{colour}"/>',
            f'<text x="{LABELS + 110 * place + 10}" y="68">{tier}</text>',
        )
    ]


def _grid(height: int) -> list[str]:
    lines = []
    for decade in range(MIN_DECADE, MAX_DECADE + 1):
        x, label = _x(10.0**decade), f"{10.0**decade:,g}" if decade < 4 else "10,000"
        lines += [
            f'<line class="grid" x1="{x:.1f}" y1="{TOP - 12}" x2="{x:.1f}" y2="{height - FOOT}"/>',
            f'<text class="quiet" x="{x:.1f}" y="{height - 14}" text-anchor="middle">{label}</text>',
        ]
    return lines


def _row(name: str, figures: Figures, y: int) -> list[str]:
    middle = y + ROW / 2 - 4
    points = {tier: _x(p95_s) for tier, p95_s in figures.p95.items()}
    low, high = min(points.values()), max(points.values())
    weight = ' font-weight="600"' if name == BEACON else ""
    return [
        f'<text x="{LABELS - 12}" y="{middle + 5}" text-anchor="end"{weight}>{escape(name)}</text>',
        f'<line class="spread" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>',
        *(
            f'<circle cx="{points[tier]:.1f}" cy="{middle}" r="5" fill="{colour}"/>'
            for tier, colour in zip(TIERS, COLOURS, strict=True)
            if tier in points
        ),
    ]


def _x(seconds: float) -> float:
    inside = min(max(seconds, 10.0**MIN_DECADE), 10.0**MAX_DECADE)
    share = (math.log10(inside) - MIN_DECADE) / (MAX_DECADE - MIN_DECADE)
    return LABELS + share * (WIDTH - LABELS - RIGHT)
