"""Durations, times, states and outputs as text for people."""

from datetime import UTC, datetime
from typing import Any

import orjson

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.router_status import STARTING, BreakerStatus

STATE_STYLE = {
    JobState.SCHEDULED: "cyan",
    JobState.QUEUED: "cyan",
    JobState.PROCESSING: "blue",
    JobState.RETRYING: "yellow",
    JobState.COMPLETED: "green",
    JobState.PARTIAL: "yellow",
    JobState.FAILED: "red",
    JobState.CANCELLED: "dim",
    JobState.EXPIRED: "dim",
}
MARKS = {
    ExecutionState.PENDING: "[dim]·[/]",
    ExecutionState.QUEUED: "[cyan]◷[/]",
    ExecutionState.RUNNING: "[blue]▶[/]",
    ExecutionState.COMPLETED: "[green]✓[/]",
    ExecutionState.FAILED: "[red]✗[/]",
    ExecutionState.CANCELLED: "[dim]-[/]",
}
_TEXT_FIELDS = ("text", "generated_text", "output", "content", "response", "image_url", "url")


def seconds(value: float | None) -> str:
    """`0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`; never negative."""
    if value is None:
        return ""
    left = max(0.0, value)
    if left < 10:
        return f"{left:.1f} s"
    if left < 60:
        return f"{left:.0f} s"
    minutes, rest = divmod(round(left), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


HEALTHY = "healthy"


def file_size(size: int) -> str:
    """Bytes in the unit that fits."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1_000:
            break
        value, unit = value / 1_000, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def backend_health(breaker: BreakerStatus) -> str:
    """`healthy`, or why the backend receives no requests."""
    if breaker.state == "open":
        return f"unavailable: {breaker.cause or 'circuit breaker open'}"
    if breaker.state == STARTING:
        return STARTING
    if breaker.state == "half_open":
        return (
            f"unavailable: being probed ({breaker.cause})" if breaker.cause else "unavailable: being probed"
        )
    return "unavailable: health check failed" if breaker.health_check == "down" else HEALTHY


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    if moment is None:
        return ""
    return f"{seconds(((now or datetime.now(UTC)) - moment).total_seconds())} ago"


def styled(state: JobState) -> str:
    return f"[{STATE_STYLE[state]}]{state}[/]"


def answer(output: Any) -> str:
    """The text of an output, under any of the known field names; files by their type and size."""
    if isinstance(output, dict):
        if isinstance(output.get("file"), str) and isinstance(output.get("bytes"), int):
            return f"{output.get('content_type')}, {file_size(output['bytes'])}: {output['file']}"
        named = next((output[name] for name in _TEXT_FIELDS if name in output), None)
        if named is not None or len(output) == 1:
            return answer(named if named is not None else next(iter(output.values())))
        return orjson.dumps(output).decode()
    if isinstance(output, list):
        files = output and all(isinstance(one, dict) and "file" in one for one in output)
        return ", ".join(map(answer, output)) if files else orjson.dumps(output).decode()
    return "" if output is None else " ".join(str(output).split())
