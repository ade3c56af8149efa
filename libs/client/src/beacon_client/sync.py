"""The client for code without asyncio: each call blocks until its result."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar, Unpack

from beacon_client.credentials import find_credentials
from beacon_client.downloads import Progress
from beacon_client.files import UploadSource
from beacon_client.job_filters import JobFilters
from beacon_client.outputs import SavedFile
from beacon_client.runner import RunnerClient
from beacon_client.submissions import Submission
from beacon_contracts.accounts import Me
from beacon_contracts.catalogue import FeatureView, ModelView, RegionList
from beacon_contracts.events import JobEvent
from beacon_contracts.files import FileView
from beacon_contracts.jobs import ExecutionView, JobAccepted, JobSummary, JobView
from beacon_contracts.operations import BulkAction, OperationView
from beacon_contracts.usage import UsageReport
from beacon_contracts.wait_reason import WhyView

Result = TypeVar("Result")
CANCEL_TIMEOUT_S = 5.0


class Beacon:
    """A `RunnerClient` on a separate thread; use it in a `with` block.

    >>> with Beacon.from_environment() as beacon:
    ...     job = beacon.submit({"kind": "generation", "model": "flux", "prompt": "a cat"})
    ...     print(beacon.wait(job.job_id).executions[0].output)
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._key = key
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._client: RunnerClient | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """A client for BEACON_RUNNER_URL and BEACON_API_KEY, or for the credentials file in BEACON_HOME."""
        found = find_credentials(os.environ if environ is None else environ)
        return cls(found.runner_url, found.user_key)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="beacon-client", daemon=True)
        self._thread.start()
        self._client = RunnerClient(self._base_url, self._key)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            self._run(lambda client: client.aclose())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CANCEL_TIMEOUT_S)
            if not thread.is_alive():
                loop.close()
            self._loop = self._thread = self._client = None

    def submit(self, job: Submission, *, idempotency_key: str | None = None) -> JobAccepted:
        """Submit a job. The idempotency key, given or generated, prevents duplicates on retries."""
        return self._run(lambda client: client.submit(job, idempotency_key=idempotency_key))

    def submit_batch(
        self, jobs: Sequence[Submission], *, idempotency_key: str | None = None
    ) -> list[JobAccepted]:
        """Submit up to 1,000 jobs atomically; the error names each invalid one."""
        return self._run(lambda client: client.submit_batch(jobs, idempotency_key=idempotency_key))

    def jobs(self, **filters: Unpack[JobFilters]) -> Iterator[JobSummary]:
        """The jobs of this key that match the filters, newest first; pages are fetched on demand."""
        return self._each(lambda client: client.jobs(**filters))

    def bulk(
        self,
        action: BulkAction | str,
        *,
        job_ids: Sequence[str] | None = None,
        **filters: Unpack[JobFilters],
    ) -> OperationView:
        """Cancel, resume, retry or delete the given jobs, or all that match the filters."""
        return self._run(lambda client: client.bulk(action, job_ids=job_ids, **filters))

    def operation(self, operation_id: str) -> OperationView:
        """The progress of an operation on many jobs."""
        return self._run(lambda client: client.operation(operation_id))

    def delete(self, job_id: str) -> None:
        """Delete a job that has ended, with its executions, events and files."""
        return self._run(lambda client: client.delete(job_id))

    def export(self, job_id: str, *, csv: bool = False) -> Iterator[bytes]:
        """All executions of a job as JSON lines, or as CSV, in pieces."""
        return self._each(lambda client: client.export(job_id, csv=csv))

    def job(self, job_id: str, *, outputs: bool = True) -> JobView:
        """The job with all of its executions; `outputs` False leaves out their results."""
        return self._run(lambda client: client.job(job_id, outputs=outputs))

    def executions(self, job_id: str, *, outputs: bool = True) -> Iterator[ExecutionView]:
        """The executions of a job in order; pages are fetched on demand."""
        return self._each(lambda client: client.executions(job_id, outputs=outputs))

    def execution(self, execution_id: str) -> ExecutionView:
        """One execution with its attempts."""
        return self._run(lambda client: client.execution(execution_id))

    def why(self, job_id: str) -> WhyView:
        """The reason why the job waits now."""
        return self._run(lambda client: client.why(job_id))

    def cancel(self, job_id: str) -> JobView:
        """Cancel a queued or running job."""
        return self._run(lambda client: client.cancel(job_id))

    def resume(self, job_id: str) -> JobView:
        """Continue a failed or partial job; finished executions are kept."""
        return self._run(lambda client: client.resume(job_id))

    def skip(self, job_id: str) -> JobView:
        """Pay for priority; `price_paid` of the result is the price."""
        return self._run(lambda client: client.skip(job_id))

    def retry_execution(self, execution_id: str) -> ExecutionView:
        """Run one failed execution again; a completed or running one is returned unchanged."""
        return self._run(lambda client: client.retry_execution(execution_id))

    def watch(self, job_id: str, *, after: int = 0) -> Iterator[JobEvent]:
        """Every event after the number `after` until the job ends, over any number of connections."""
        return self._each(lambda client: client.watch(job_id, after=after))

    def wait(self, job_id: str, *, timeout: float | None = None, check: bool = True) -> JobView:
        """The job after its end.

        timeout: seconds after which `WaitTimeoutError` is raised; the job continues to run.
        check: raise `JobFailedError` for a job that did not complete; False returns every ended job.
        """
        return self._run(lambda client: client.wait(job_id, timeout=timeout, check=check))

    def upload(
        self, source: UploadSource, *, name: str | None = None, progress: Progress | None = None
    ) -> FileView:
        """Store a local file, bytes or a stream; it is deleted after a day unless a job uses it."""
        return self._run(lambda client: client.files.upload(source, name=name, progress=progress))

    def files(self) -> Iterator[FileView]:
        """The user's files, newest first; pages are fetched on demand."""
        return self._each(lambda client: client.files.list())

    def file(self, file_id: str) -> FileView:
        """Name, type, size and checksum of a file."""
        return self._run(lambda client: client.files.get(file_id))

    def stream(self, file_id: str) -> Iterator[bytes]:
        """The bytes of a file in pieces."""
        return self._each(lambda client: client.files.stream(file_id))

    def download(self, file_id: str, target: Path, *, progress: Progress | None = None) -> int:
        """Write the bytes of a file to `target` and return their number."""
        return self._run(lambda client: client.files.download(file_id, target, progress=progress))

    def save_outputs(self, job_id: str, folder: Path, *, progress: Progress | None = None) -> list[SavedFile]:
        """Save the files that a job has made so far into a folder."""
        return self._run(lambda client: client.save_outputs(job_id, folder, progress=progress))

    def download_all(self, job_id: str, target: Path) -> int:
        """Write all files that a job has made to the ZIP `target`, and return its size."""
        return self._run(lambda client: client.files.download_all(job_id, target))

    def delete_file(self, file_id: str) -> None:
        """Delete a file."""
        self._run(lambda client: client.files.delete(file_id))

    def me(self) -> Me:
        """The key's user: tier, limits, credit."""
        return self._run(lambda client: client.me())

    def usage(
        self,
        *,
        group_by: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> UsageReport:
        """Runs, GPU seconds and tokens of the user; grouped by hour, day, key, model, region or tag."""
        return self._run(lambda client: client.usage(group_by=group_by, start=start, end=end))

    def models(self) -> list[ModelView]:
        """The models and the regions that serve them."""
        return self._run(lambda client: client.models())

    def features(self) -> list[FeatureView]:
        """The pipelines and their steps."""
        return self._run(lambda client: client.features())

    def regions(self) -> RegionList:
        """Queues, slots and backends of each region."""
        return self._run(lambda client: client.regions())

    def _run(self, call: Callable[[RunnerClient], Awaitable[Result]]) -> Result:
        """Run a call on the client's thread. Ctrl-C cancels the call and waits for its end."""
        client, loop = self._opened()
        ended = Event()

        async def run() -> Result:
            try:
                return await call(client)
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(CANCEL_TIMEOUT_S)
            raise

    def _opened(self) -> tuple[RunnerClient, asyncio.AbstractEventLoop]:
        if self._client is None or self._loop is None:
            raise RuntimeError("use it in a block: with Beacon(...) as beacon")
        return self._client, self._loop

    def _each(self, call: Callable[[RunnerClient], AsyncGenerator[Result]]) -> Iterator[Result]:
        client, _loop = self._opened()
        items = call(client)

        async def following(_client: RunnerClient) -> list[Result]:
            """The next item in a list; an empty list at the end."""
            try:
                return [await anext(items)]
            except StopAsyncIteration:
                return []

        try:
            while item := self._run(following):
                yield item[0]
        finally:
            self._run(lambda _client: items.aclose())
