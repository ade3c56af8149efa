"""The asyncio client of the runner: submit jobs, follow them, act on them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack
from urllib.parse import quote

import httpx

from beacon_client.admin import AdminClient
from beacon_client.configuration import ConfigurationClient
from beacon_client.credentials import find_credentials
from beacon_client.downloads import Progress
from beacon_client.errors import JobFailedError, WaitTimeoutError
from beacon_client.files import FileClient
from beacon_client.job_filters import JobFilters, query_of, selector_of
from beacon_client.outputs import SavedFile, save_outputs
from beacon_client.runner_http import RunnerHttp, Sleep
from beacon_client.submissions import Submission, as_submission, new_idempotency_key
from beacon_client.usage import fetch_usage
from beacon_client.watching import watch
from beacon_client.webhooks import WebhooksClient
from beacon_contracts.accounts import Me
from beacon_contracts.catalogue import (
    FeatureList,
    FeatureView,
    ModelList,
    ModelView,
    RegionList,
    SkipPriceView,
    SkipPricing,
)
from beacon_contracts.events import EventPage, JobEvent
from beacon_contracts.jobs import (
    BatchAccepted,
    ExecutionPage,
    ExecutionView,
    JobAccepted,
    JobPage,
    JobState,
    JobSummary,
    JobView,
    job_submission,
)
from beacon_contracts.operations import BulkAction, BulkRequest, OperationView
from beacon_contracts.usage import UsageReport
from beacon_contracts.wait_reason import WhyView

PAGE = 100


class RunnerClient:
    """Typed calls with one key. Requests that are safe to repeat are retried; errors are `BeaconError`s."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        sleep: Sleep = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._sleep = sleep
        self._http = RunnerHttp(base_url, key, sleep=sleep, transport=transport)
        self.admin = AdminClient(self._http)
        self.configuration = ConfigurationClient(self._http)
        self.files = FileClient(self._http)
        self.webhooks = WebhooksClient(self._http)

    @property
    def base_url(self) -> str:
        """The address of the runner."""
        return self._http.base_url

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """A client for BEACON_RUNNER_URL and BEACON_API_KEY, or for the credentials file in BEACON_HOME."""
        found = find_credentials(os.environ if environ is None else environ)
        return cls(found.runner_url, found.user_key)

    async def submit(self, job: Submission, *, idempotency_key: str | None = None) -> JobAccepted:
        """Submit a job. The idempotency key, given or generated, prevents duplicates on retries."""
        headers = {"idempotency-key": idempotency_key or new_idempotency_key()}
        body = job_submission.dump_json(as_submission(job))
        answer = await self._http.post("/api/v1/jobs", body, headers=headers, repeatable=True)
        return JobAccepted.model_validate_json(answer)

    async def submit_batch(
        self, jobs: Sequence[Submission], *, idempotency_key: str | None = None
    ) -> list[JobAccepted]:
        """Submit up to 1,000 jobs atomically; the error names each invalid one."""
        headers = {"idempotency-key": idempotency_key or new_idempotency_key()}
        parts = b",".join(job_submission.dump_json(as_submission(job)) for job in jobs)
        body = b'{"jobs":[' + parts + b"]}"
        answer = await self._http.post("/api/v1/jobs/batch", body, headers=headers, repeatable=True)
        return BatchAccepted.model_validate_json(answer).jobs

    async def jobs(
        self, *, page_size: int = PAGE, **filters: Unpack[JobFilters]
    ) -> AsyncGenerator[JobSummary]:
        """The jobs of this key that match the filters, newest first."""
        wanted = {**query_of(filters), "limit": page_size}
        async for page in self._http.pages("/api/v1/jobs", JobPage.model_validate_json, wanted):
            for job in page.jobs:
                yield job

    async def job_page(
        self, *, limit: int = PAGE, cursor: str | None = None, **filters: Unpack[JobFilters]
    ) -> JobPage:
        """One page of jobs, newest first."""
        wanted = {**query_of(filters), "limit": limit, "cursor": cursor}
        return JobPage.model_validate_json(await self._http.get("/api/v1/jobs", wanted))

    async def bulk(
        self,
        action: BulkAction | str,
        *,
        job_ids: Sequence[str] | None = None,
        **filters: Unpack[JobFilters],
    ) -> OperationView:
        """Cancel, resume, retry or delete the given jobs, or all that match the filters."""
        request = BulkRequest(
            action=BulkAction(action),
            filter=selector_of(filters) if job_ids is None else None,
            job_ids=None if job_ids is None else list(job_ids),
        )
        body = request.model_dump_json(exclude_none=True).encode()
        return OperationView.model_validate_json(await self._http.post("/api/v1/jobs/bulk", body))

    async def operation(self, operation_id: str) -> OperationView:
        """The progress of an operation on many jobs."""
        path = f"/api/v1/operations/{quote(operation_id, safe='')}"
        return OperationView.model_validate_json(await self._http.get(path))

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended, with its executions, events and files."""
        await self._http.delete(_job(job_id))

    async def export(self, job_id: str, *, csv: bool = False) -> AsyncGenerator[bytes]:
        """All executions of a job as JSON lines, or as CSV, in pieces."""
        path = f"{_job(job_id)}/results.{'csv' if csv else 'jsonl'}"
        async with self._http.stream(path, {"accept": "*/*"}) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def job(self, job_id: str, *, outputs: bool = True) -> JobView:
        """The job with all of its executions; `outputs` False leaves out their results."""
        wanted = {"outputs": None if outputs else "false"}
        job = JobView.model_validate_json(await self._http.get(_job(job_id), wanted))
        if job.executions_cursor is None:
            return job
        rest = self.executions(job_id, outputs=outputs, cursor=job.executions_cursor)
        executions = [*job.executions, *[one async for one in rest]]
        return job.model_copy(update={"executions": executions, "executions_cursor": None})

    async def executions(
        self, job_id: str, *, outputs: bool = True, page_size: int = PAGE, cursor: str | None = None
    ) -> AsyncGenerator[ExecutionView]:
        """The executions of a job in order; pages are fetched on demand."""
        wanted = {"outputs": None if outputs else "false", "limit": page_size}
        path, parse = f"{_job(job_id)}/executions", ExecutionPage.model_validate_json
        async for page in self._http.pages(path, parse, wanted, cursor=cursor):
            for execution in page.executions:
                yield execution

    async def execution(self, execution_id: str) -> ExecutionView:
        """One execution with its attempts."""
        return ExecutionView.model_validate_json(await self._http.get(_execution(execution_id)))

    async def save_outputs(
        self, job_id: str, folder: Path, *, progress: Progress | None = None
    ) -> list[SavedFile]:
        """Save the files that a job has made so far into a folder.

        Files that are there with the same bytes stay; interrupted downloads continue.
        """
        return await save_outputs(self._http, self.executions(job_id), folder, progress)

    async def why(self, job_id: str) -> WhyView:
        """The reason why the job waits now."""
        return WhyView.model_validate_json(await self._http.get(f"{_job(job_id)}/why"))

    async def cancel(self, job_id: str) -> JobView:
        """Cancel a queued or running job."""
        await self._http.post(f"{_job(job_id)}/cancel", repeatable=True)
        return await self.job(job_id)

    async def resume(self, job_id: str) -> JobView:
        """Continue a failed or partial job; finished executions are kept."""
        await self._http.post(f"{_job(job_id)}/resume")
        return await self.job(job_id)

    async def skip(self, job_id: str) -> JobView:
        """Pay for priority; `price_paid` of the result is the price."""
        await self._http.post(f"{_job(job_id)}/skip")
        return await self.job(job_id)

    async def retry_execution(self, execution_id: str) -> ExecutionView:
        """Run one failed execution again; a completed or running one is returned unchanged."""
        await self._http.post(f"{_execution(execution_id)}/retry-question")
        return await self.execution(execution_id)

    async def events(self, job_id: str, *, after: int = 0) -> EventPage:
        """The recorded events after the number `after`, without waiting for new ones."""
        answer = await self._http.get(f"{_job(job_id)}/events", {"after": after})
        return EventPage.model_validate_json(answer)

    def watch(self, job_id: str, *, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Every event after the number `after` until the job ends, over any number of connections."""
        return watch(self._http, f"{_job(job_id)}/events", after=after, sleep=self._sleep)

    async def wait(self, job_id: str, *, timeout: float | None = None, check: bool = True) -> JobView:  # noqa: ASYNC109
        """The job after its end.

        timeout: seconds after which `WaitTimeoutError` is raised; the job continues to run.
        check: raise `JobFailedError` for a job that did not complete; False returns every ended job.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                async for _event in self.watch(job_id):
                    pass
                job = await self.job(job_id)
        except TimeoutError as error:
            if timeout is None or not limit.expired():
                raise
            raise WaitTimeoutError(job_id, timeout) from error
        if check and job.status is not JobState.COMPLETED:
            raise JobFailedError(job)
        return job

    async def me(self) -> Me:
        """The key's user: tier, limits, credit."""
        return Me.model_validate_json(await self._http.get("/api/v1/me"))

    async def usage(
        self,
        *,
        group_by: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> UsageReport:
        """Runs, GPU seconds and tokens of the user; grouped by hour, day, key, model, region or tag."""
        return await fetch_usage(self._http, "/api/v1/usage", group_by, start, end)

    async def models(self) -> list[ModelView]:
        """The models and the regions that serve them."""
        return ModelList.model_validate_json(await self._http.get("/api/v1/models")).models

    async def features(self) -> list[FeatureView]:
        """The pipelines and their steps."""
        return FeatureList.model_validate_json(await self._http.get("/api/v1/features")).features

    async def regions(self) -> RegionList:
        """Queues, slots and backends of each region."""
        return RegionList.model_validate_json(await self._http.get("/api/v1/regions"))

    async def skip_pricing(self) -> list[SkipPriceView]:
        """The prices of a skip, by the duration of the job."""
        return SkipPricing.model_validate_json(await self._http.get("/api/v1/skip-pricing")).prices

    async def ready(self) -> bytes:
        """The raw response of /readyz; raises when the runner is not ready."""
        return await self._http.get("/readyz")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _job(job_id: str) -> str:
    return f"/api/v1/jobs/{quote(job_id, safe='')}"


def _execution(execution_id: str) -> str:
    return f"/api/v1/executions/{quote(execution_id, safe='')}"
