"""Markdown tables and the numbers in them."""

from collections.abc import Sequence

from benchmarks.harness.statistics import Spread

DASH = "\N{EN DASH}"
TIMES = " \N{MULTIPLICATION SIGN}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is text; numbers are right-aligned."""
    marks = [":--", *("--:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *rows))


def number(value: float) -> str:
    """Three significant digits, with thousands separators."""
    size = abs(value)
    if size >= 1000:
        return f"{round(value, 2 - len(str(int(size))) + 1):,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def spread(value: Spread | None) -> str:
    """`median (low to high)`; a dash without a measurement."""
    if value is None:
        return DASH
    return f"{number(value.median)} ({number(value.low)} to {number(value.high)})"
