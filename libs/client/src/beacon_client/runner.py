"""The client of the runner: submit jobs, follow them, act on them."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx

from beacon_client.admin import AdminClient
from beacon_client.credentials import find_credentials
from beacon_client.runner_http import RunnerHttp
from beacon_client.submissions import Submission, as_submission, new_idempotency_key
from beacon_client.watching import watch
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
    ExecutionView,
    JobAccepted,
    JobPage,
    JobState,
    JobSummary,
    JobView,
    job_submission,
)
from beacon_contracts.wait_reason import WhyView
from beacon_lifecycle.clock import Clock, SystemClock

PAGE = 100


class RunnerClient:
    """Typed calls with one key. What is safe to repeat is repeated; every refusal is a `BeaconError`."""

    def __init__(
        self,
        base_url: str,
        key: str,
        clock: Clock | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._http = RunnerHttp(base_url, key, self._clock, transport=transport)
        self.admin = AdminClient(self._http)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """BEACON_RUNNER_URL and BEACON_API_KEY, or what `beacon up` wrote into BEACON_HOME."""
        found = find_credentials(os.environ if environ is None else environ)
        return cls(found.runner_url, found.user_key)

    async def submit(self, job: Submission, *, idempotency_key: str | None = None) -> JobAccepted:
        """Hand in a job; with a key, given or made up, a repeated call cannot make a second one."""
        headers = {"idempotency-key": idempotency_key or new_idempotency_key()}
        body = job_submission.dump_json(as_submission(job))
        answer = await self._http.post("/api/v1/jobs", body, headers=headers, repeatable=True)
        return JobAccepted.model_validate_json(answer)

    async def submit_batch(
        self, jobs: Sequence[Submission], *, idempotency_key: str | None = None
    ) -> list[JobAccepted]:
        """Hand in up to 1,000 jobs: all are taken or none, and the error names each that was wrong."""
        headers = {"idempotency-key": idempotency_key or new_idempotency_key()}
        parts = b",".join(job_submission.dump_json(as_submission(job)) for job in jobs)
        body = b'{"jobs":[' + parts + b"]}"
        answer = await self._http.post("/api/v1/jobs/batch", body, headers=headers, repeatable=True)
        return BatchAccepted.model_validate_json(answer).jobs

    async def jobs(
        self,
        *,
        status: JobState | None = None,
        kind: str | None = None,
        everybody: bool = False,
        page_size: int = PAGE,
    ) -> AsyncGenerator[JobSummary]:
        """The key's jobs, or everybody's for an administrator, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = await self.job_page(
                status=status, kind=kind, everybody=everybody, limit=page_size, cursor=cursor
            )
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def job_page(
        self,
        *,
        status: JobState | None = None,
        kind: str | None = None,
        everybody: bool = False,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> JobPage:
        wanted = {"status": status, "kind": kind, "limit": limit, "cursor": cursor}
        if everybody:
            wanted["everybody"] = "true"
        return JobPage.model_validate_json(await self._http.get("/api/v1/jobs", wanted))

    async def job(self, job_id: str) -> JobView:
        return JobView.model_validate_json(await self._http.get(_job(job_id)))

    async def execution(self, execution_id: str) -> ExecutionView:
        return ExecutionView.model_validate_json(await self._http.get(_execution(execution_id)))

    async def why(self, job_id: str) -> WhyView:
        """What the job waits for now."""
        return WhyView.model_validate_json(await self._http.get(f"{_job(job_id)}/why"))

    async def cancel(self, job_id: str) -> JobView:
        await self._http.post(f"{_job(job_id)}/cancel", repeatable=True)
        return await self.job(job_id)

    async def resume(self, job_id: str) -> JobView:
        """Go on with a failed or partial job; what is finished stays."""
        await self._http.post(f"{_job(job_id)}/resume")
        return await self.job(job_id)

    async def skip(self, job_id: str) -> JobView:
        """Pay to go first; `price_paid` of the answer says how much it was."""
        await self._http.post(f"{_job(job_id)}/skip")
        return await self.job(job_id)

    async def retry_execution(self, execution_id: str) -> ExecutionView:
        """Run one failed execution again; one that is completed or in flight is answered as it is."""
        await self._http.post(f"{_execution(execution_id)}/retry-question")
        return await self.execution(execution_id)

    async def events(self, job_id: str, *, after: int = 0) -> EventPage:
        """A page of what happened after the number `after`, without waiting for more."""
        answer = await self._http.get(f"{_job(job_id)}/events", {"after": after})
        return EventPage.model_validate_json(answer)

    def watch(self, job_id: str, *, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Every event after the number `after` until the job ends, over any number of connections."""
        return watch(self._http, f"{_job(job_id)}/events", after=after, clock=self._clock)

    async def wait(self, job_id: str) -> JobView:
        """The job when it has ended."""
        async for _event in self.watch(job_id):
            pass
        return await self.job(job_id)

    async def me(self) -> Me:
        return Me.model_validate_json(await self._http.get("/api/v1/me"))

    async def models(self) -> list[ModelView]:
        return ModelList.model_validate_json(await self._http.get("/api/v1/models")).models

    async def features(self) -> list[FeatureView]:
        return FeatureList.model_validate_json(await self._http.get("/api/v1/features")).features

    async def regions(self) -> RegionList:
        return RegionList.model_validate_json(await self._http.get("/api/v1/regions"))

    async def skip_pricing(self) -> list[SkipPriceView]:
        return SkipPricing.model_validate_json(await self._http.get("/api/v1/skip-pricing")).prices

    async def ready(self) -> bytes:
        """The raw answer of /readyz; raises when the runner is not ready."""
        return await self._http.get("/readyz")

    async def aclose(self) -> None:
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
