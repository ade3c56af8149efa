"""The same client for code without an event loop: each call returns when it is done."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from beacon_client.credentials import find_credentials
from beacon_client.runner import RunnerClient
from beacon_client.submissions import Submission
from beacon_contracts.accounts import Me
from beacon_contracts.catalogue import FeatureView, ModelView, RegionList
from beacon_contracts.events import JobEvent
from beacon_contracts.jobs import ExecutionView, JobAccepted, JobState, JobSummary, JobView
from beacon_contracts.wait_reason import WhyView

Result = TypeVar("Result")


class Beacon:
    """A `RunnerClient` on a thread of its own; use it in a `with` block.

    >>> with Beacon.from_environment() as beacon:
    ...     job = beacon.submit({"kind": "generation", "model": "flux", "prompt": "a cat"})
    ...     print(beacon.wait(job.job_id).executions[0].output)
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._key = key
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None
        self._client: RunnerClient | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """BEACON_RUNNER_URL and BEACON_API_KEY, or what `beacon up` wrote into BEACON_HOME."""
        found = find_credentials(os.environ if environ is None else environ)
        return cls(found.runner_url, found.user_key)

    def __enter__(self) -> Self:
        self._portal = self._open.enter_context(start_blocking_portal("asyncio", name="beacon-client"))
        self._client = self._portal.call(RunnerClient, self._base_url, self._key)
        self._open.callback(self._portal.call, self._client.aclose)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        self._portal = self._client = None

    def submit(self, job: Submission, *, idempotency_key: str | None = None) -> JobAccepted:
        return self._run(lambda client: client.submit(job, idempotency_key=idempotency_key))

    def submit_batch(
        self, jobs: Sequence[Submission], *, idempotency_key: str | None = None
    ) -> list[JobAccepted]:
        return self._run(lambda client: client.submit_batch(jobs, idempotency_key=idempotency_key))

    def jobs(self, *, status: JobState | None = None, kind: str | None = None) -> Iterator[JobSummary]:
        return self._each(lambda client: client.jobs(status=status, kind=kind))

    def job(self, job_id: str) -> JobView:
        return self._run(lambda client: client.job(job_id))

    def execution(self, execution_id: str) -> ExecutionView:
        return self._run(lambda client: client.execution(execution_id))

    def why(self, job_id: str) -> WhyView:
        return self._run(lambda client: client.why(job_id))

    def cancel(self, job_id: str) -> JobView:
        return self._run(lambda client: client.cancel(job_id))

    def resume(self, job_id: str) -> JobView:
        return self._run(lambda client: client.resume(job_id))

    def skip(self, job_id: str) -> JobView:
        return self._run(lambda client: client.skip(job_id))

    def retry_execution(self, execution_id: str) -> ExecutionView:
        return self._run(lambda client: client.retry_execution(execution_id))

    def watch(self, job_id: str, *, after: int = 0) -> Iterator[JobEvent]:
        return self._each(lambda client: client.watch(job_id, after=after))

    def wait(self, job_id: str) -> JobView:
        """The job when it has ended."""
        return self._run(lambda client: client.wait(job_id))

    def me(self) -> Me:
        return self._run(lambda client: client.me())

    def models(self) -> list[ModelView]:
        return self._run(lambda client: client.models())

    def features(self) -> list[FeatureView]:
        return self._run(lambda client: client.features())

    def regions(self) -> RegionList:
        return self._run(lambda client: client.regions())

    def _opened(self) -> tuple[BlockingPortal, RunnerClient]:
        if self._portal is None or self._client is None:
            raise RuntimeError("use it in a block: with Beacon(...) as beacon")
        return self._portal, self._client

    def _run(self, call: Callable[[RunnerClient], Coroutine[Any, Any, Result]]) -> Result:
        portal, client = self._opened()
        result: Result = portal.call(call, client)
        return result

    def _each(self, call: Callable[[RunnerClient], AsyncGenerator[Result]]) -> Iterator[Result]:
        portal, client = self._opened()
        items = call(client)

        async def following() -> list[Result]:
            """The next item in a list; an empty one at the end."""
            try:
                return [await anext(items)]
            except StopAsyncIteration:
                return []

        try:
            while item := portal.call(following):
                yield item[0]
        finally:
            portal.call(items.aclose)
