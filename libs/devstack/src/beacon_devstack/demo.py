"""Three questions to three models in three regions: submitted, shown live, and printed as a table."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from beacon_contracts.credentials import Credentials
from beacon_contracts.jobs import ExecutionState, ExecutionView, JobAccepted, JobState, JobView
from beacon_devstack.errors import DevstackError

QUESTIONS = {
    "capital": "What is the capital of France?",
    "sum": "What is 17 plus 25?",
    "queue": "Why do people stand in line?",
}
MODELS = ("llama3.2-1b", "qwen2.5-1.5b", "mistral-7b")
REGIONS = ("US", "EU", "ASIA")
POLL_S = 0.2
DEMO_TIMEOUT_S = 120.0
LIVE = {JobState.SCHEDULED, JobState.QUEUED, JobState.PROCESSING, JobState.RETRYING}


async def show_matrix(
    credentials: Credentials, console: Console, *, log: Path, timeout_s: float = DEMO_TIMEOUT_S
) -> None:
    """Return when all answers are printed; raises when one is missing."""
    headers = {"Authorization": f"Bearer {credentials.user_key}"}
    async with httpx.AsyncClient(base_url=credentials.runner_url, headers=headers, trust_env=False) as http:
        matrix = _Matrix(http, log, timeout_s)
        accepted = await matrix.submit()
        console.print(f"[bold]==>[/] submitted {accepted.job_id}")
        job = await matrix.finish(accepted.job_id, console)
    for name, prompt in QUESTIONS.items():
        console.print(f"    {name:<8} {prompt}")
    console.print(_answers(job))
    _check_complete(job, log)


class _Matrix:
    """The demo's job: submits it over HTTP and follows it."""

    def __init__(self, http: httpx.AsyncClient, log: Path, timeout_s: float) -> None:
        self._http = http
        self._log = log
        self._timeout_s = timeout_s

    async def submit(self) -> JobAccepted:
        answer = await self._call("POST", "/api/v1/jobs", json=_submission())
        return JobAccepted.model_validate_json(answer.content)

    async def finish(self, job_id: str, console: Console) -> JobView:
        """Follow the job to its end on a progress bar."""
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("queued", total=len(QUESTIONS) * len(MODELS) * len(REGIONS))
            try:
                async with asyncio.timeout(self._timeout_s):
                    while True:
                        job = await self._job(job_id)
                        done = job.progress.completed + job.progress.failed
                        progress.update(bar, completed=done, description=str(job.status))
                        if job.status not in LIVE:
                            return job
                        await asyncio.sleep(POLL_S)
            except TimeoutError:
                reason = f"the demo's job {job_id} is not complete after {self._timeout_s:g} s"
                raise DevstackError("runner", reason, self._log) from None

    async def _job(self, job_id: str) -> JobView:
        return JobView.model_validate_json((await self._call("GET", f"/api/v1/jobs/{job_id}")).content)

    async def _call(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise DevstackError("runner", f"{method} {path} failed: {error!r}", self._log) from error
        if answer.is_error:
            reason = f"{method} {path} was answered {answer.status_code}: {answer.text[:500]}"
            raise DevstackError("runner", reason, self._log)
        return answer


def _submission() -> dict[str, Any]:
    return {
        "kind": "matrix",
        "name": "demo",
        "questions": [{"id": name, "prompt": prompt} for name, prompt in QUESTIONS.items()],
        "models": list(MODELS),
        "regions": list(REGIONS),
        "params": {"temperature": 0.1, "max_tokens": 64},
    }


def _answers(job: JobView) -> Table:
    table = Table("question", "model", "region", "answer", title=f"{job.job_id}: {job.status}")
    order = {name: place for place, name in enumerate((*QUESTIONS, *MODELS, *REGIONS))}
    for execution in sorted(job.executions, key=lambda e: (order[e.item], order[e.model], order[e.region])):
        table.add_row(execution.item, execution.model, _where(execution), _answer(execution))
    return table


def _where(execution: ExecutionView) -> str:
    moved = execution.actual_region not in (None, execution.region)
    return f"{execution.region} → {execution.actual_region}" if moved else execution.region


def _answer(execution: ExecutionView) -> str:
    if execution.failure is not None:
        return f"{execution.failure.code}: {execution.failure.message}"
    output = execution.output
    if isinstance(output, dict):
        output = next(
            (output[key] for key in ("text", "output", "content", "response") if key in output), output
        )
    return " ".join(str(output).split())


def _check_complete(job: JobView, log: Path) -> None:
    missing = [e for e in job.executions if e.state is not ExecutionState.COMPLETED]
    expected = len(QUESTIONS) * len(MODELS) * len(REGIONS)
    if job.status is not JobState.COMPLETED or missing or len(job.executions) != expected:
        got = len(job.executions) - len(missing)
        raise DevstackError("runner", f"the demo's job is {job.status} with {got} of {expected} answers", log)
