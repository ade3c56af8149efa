"""A job in the terminal: its state, its progress, and the grid of its executions."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from beacon_cli.output.formatting import MARKS, ago, answer, seconds, styled
from beacon_cli.output.printing import facts
from beacon_contracts.events import JobEvent
from beacon_contracts.inference import RunProgress
from beacon_contracts.jobs import ExecutionState, ExecutionView, JobView

MAX_ROWS = 40
MAX_RUNS = 8
MAX_COLUMNS = 24
BAR_WIDTH = 40


def job_board(job: JobView, latest: JobEvent | None = None) -> RenderableType:
    """The complete view, as `watch` shows it live."""
    parts: list[RenderableType] = [_headline(job), _progress(job), *_runs(job)]
    if len(job.executions) > 1 or job.kind != "generation":
        parts.append(grid(job))
    if latest is not None:
        parts.append(f"[dim]{latest.seq}  {latest.type}  {escape(describe_event(latest))}[/]")
    return Group(*parts)


def _headline(job: JobView) -> str:
    name = f" {escape(job.name)}" if job.name else ""
    waits = []
    if job.position is not None:
        waits.append(f"position {job.position}")
    if job.estimated_wait_s is not None:
        waits.append(f"about {seconds(job.estimated_wait_s)} to wait")
    return f"[bold]{job.job_id}[/]{name}  {styled(job.status)}  {', '.join(waits)}"


def _progress(job: JobView) -> RenderableType:
    done = job.progress.completed + job.progress.failed + job.progress.cancelled
    line = Table.grid(padding=(0, 1))
    line.add_row(
        ProgressBar(total=100, completed=job.progress.percent, width=BAR_WIDTH),
        f"{done} of {job.progress.total}",
        f"{job.progress.queued} queued" if job.progress.queued else "",
        f"{job.progress.running} running" if job.progress.running else "",
        f"[red]{job.progress.failed} failed[/]" if job.progress.failed else "",
    )
    return line


def _runs(job: JobView) -> list[RenderableType]:
    """A bar for each running execution whose backend reports progress."""
    running = [one for one in job.executions if one.progress is not None]
    if not running:
        return []
    made = Table.grid(padding=(0, 1))
    for execution in running[:MAX_RUNS]:
        made.add_row(
            escape(f"{execution.step or execution.item} {execution.model} {execution.region}"),
            _bar(execution.progress),
            escape(progress_text(execution.progress)),
        )
    if len(running) > MAX_RUNS:
        made.add_row(f"and {len(running) - MAX_RUNS} more", "", "")
    return [made]


def _bar(progress: RunProgress | None) -> RenderableType:
    if progress is None or progress.percent is None:
        return ""
    return ProgressBar(total=100, completed=progress.percent, width=BAR_WIDTH // 2)


def progress_text(progress: RunProgress | None) -> str:
    if progress is None:
        return ""
    percent = None if progress.percent is None else f"{progress.percent:.0f} %"
    return "  ".join(text for text in (percent, progress.message) if text)


def grid(job: JobView) -> Table:
    """Questions down, models and regions across; steps of a pipeline one below the other."""
    places = sorted({(execution.model, execution.region) for execution in job.executions})
    if len(places) > MAX_COLUMNS or job.kind != "matrix":
        return answers_table(job.executions[:MAX_ROWS])
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("", no_wrap=True, max_width=24)
    for model, region in places:
        made.add_column(f"{escape(model)}\n{escape(region)}", justify="center")
    by_item: dict[str, dict[tuple[str, str], ExecutionView]] = {}
    for execution in job.executions:
        by_item.setdefault(execution.item, {})[execution.model, execution.region] = execution
    for item, row in list(by_item.items())[:MAX_ROWS]:
        made.add_row(escape(item), *(_mark(row.get(place)) for place in places))
    if len(by_item) > MAX_ROWS:
        made.caption = f"and {len(by_item) - MAX_ROWS} more questions"
    return made


def _mark(execution: ExecutionView | None) -> str:
    if execution is None:
        return ""
    moved = execution.actual_region not in (None, execution.region)
    return MARKS[execution.state] + (f"[dim]→{escape(execution.actual_region or '')}[/]" if moved else "")


def answers_table(executions: Sequence[ExecutionView]) -> Table:
    """Every answer or failure on its line; a failure says how to run it again."""
    made = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for name in ("", "item", "model", "region"):
        made.add_column(name, no_wrap=True)
    made.add_column("answer", overflow="fold")
    for execution in executions:
        made.add_row(
            MARKS[execution.state],
            escape(execution.step or execution.item),
            escape(execution.model),
            escape(_where(execution)),
            escape(_outcome(execution)),
        )
    return made


def _where(execution: ExecutionView) -> str:
    if execution.actual_region in (None, execution.region):
        return execution.region
    return f"{execution.region} → {execution.actual_region}"


def _outcome(execution: ExecutionView) -> str:
    if execution.failure is not None:
        failed = execution.state is ExecutionState.FAILED
        again = f" (beacon retry {execution.id})" if failed and execution.failure.retryable else ""
        return f"{execution.failure.code}: {execution.failure.message}{again}"
    if execution.state is ExecutionState.COMPLETED:
        return answer(execution.output) or "(empty)"
    return ""


def job_facts(job: JobView) -> RenderableType:
    failure = job.failure
    return facts(
        [
            ("job", job.job_id),
            ("name", job.name or None),
            ("kind", job.kind),
            ("status", job.status),
            ("tier", f"{job.tier} ({job.priority})"),
            ("position", job.position),
            ("expected wait", seconds(job.estimated_wait_s) or None),
            ("stage", f"{min(job.stage + 1, job.stages)} of {job.stages}" if job.stages > 1 else None),
            ("attempt", job.attempt if job.attempt > 1 else None),
            ("created", ago(job.created_at)),
            ("took", _took(job)),
            ("paid", job.price_paid or None),
            ("failure", f"{failure.code}: {failure.message}" if failure else None),
        ]
    )


def _took(job: JobView) -> str | None:
    if job.finished_at is None:
        return None
    return seconds((job.finished_at - job.created_at).total_seconds())


def describe_event(event: JobEvent) -> str:
    """What an event is about, from the fields that people recognise."""
    data = event.data
    names = ("step", "item", "model", "region", "backend", "position", "reason", "delay_s")
    words = [f"{name}={data[name]}" for name in names if data.get(name) is not None]
    if event.progress is not None:
        words.append(progress_text(event.progress))
    failure = data.get("failure")
    if isinstance(failure, dict):
        words.append(f"{failure.get('code')}: {failure.get('message')}")
    return "  ".join(words)
