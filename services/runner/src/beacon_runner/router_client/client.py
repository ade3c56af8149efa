"""Client of one or more routers: runs an inference to a terminal state over lost connections and restarts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import structlog
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from beacon_contracts.configuration import RouterConfigRequest, RouterConfigView, RouterRevision
from beacon_contracts.inference import (
    BatchAnswer,
    InferenceRequest,
    InferenceState,
    InferenceView,
    RemoteRun,
)
from beacon_contracts.problem import Problem
from beacon_contracts.router_status import QueueStatus, SchedulerStatus
from beacon_lifecycle import Clock, SystemClock, TaskSet
from beacon_runner.domain.inputs.encoded_request import EncodedRequest
from beacon_runner.ports.interactive import OnEvent
from beacon_runner.ports.router import CancelResult, OnState, RouterRefused, RouterStatus
from beacon_runner.router_client.batches import MAX_BATCH_BYTES, RouterBatches
from beacon_runner.router_client.cancel_replies import combine_cancel_replies
from beacon_runner.router_client.endpoints import RouterEndpoint, RouterEndpoints
from beacon_runner.router_client.replies import NoReply, parse_reply, view_of
from beacon_runner.router_client.router_call import RouterCall
from beacon_runner.router_client.stream import MEDIA_TYPE, InferenceStreams
from beacon_runner.router_client.transport import HttpAnswer, RouterExchangeError, RouterTransport
from beacon_telemetry import outgoing_headers

log = structlog.get_logger(__name__)

NDJSON = "application/x-ndjson"
CONFIG_PATH = "/config"


@dataclass(frozen=True, slots=True)
class RouterTimeouts:
    """Limits of one call. `exchange_s` is below the usual timeouts of proxies.

    `silence_s`: time without an answer after which a waiting stream reports that, repeatedly.
    """

    wait_s: int = 25
    exchange_s: float = 30.0
    connect_s: float = 3.0
    short_s: float = 5.0
    silence_s: float = 5.0
    max_tries: int = 7


class RouterClient:
    """Implements `InferencePort`, `InteractivePort` and `RouterPort`; its calls may run concurrently."""

    def __init__(
        self,
        base_urls: Sequence[str],
        token: str,
        clock: Clock | None = None,
        *,
        timeouts: RouterTimeouts | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._endpoints = RouterEndpoints(base_urls)
        self._clock = clock or SystemClock()
        self._timeouts = timeouts or RouterTimeouts()
        self._transport = RouterTransport(connect_s=self._timeouts.connect_s)
        self._headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json",
            "content-type": "application/json",
        }
        self._tasks = TaskSet("router-client")
        self._max_batch_bytes = max_batch_bytes
        self._runs = self._batches(wait_s=self._timeouts.wait_s, timeout_s=self._timeouts.exchange_s)
        self._lookups = self._batches(wait_s=0, timeout_s=self._timeouts.short_s)
        self._stream_headers = {**self._headers, "accept": MEDIA_TYPE}
        self._streams = InferenceStreams(
            self._endpoints,
            self._transport,
            self._clock,
            max_tries=self._timeouts.max_tries,
            timeout_s=self._timeouts.exchange_s,
            silence_s=self._timeouts.silence_s,
        )

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,
        on_state: OnState = lambda _: None,
    ) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy`, `RouterUnreachable` or `RouterRefused` instead.

        `again`: the request may have been sent before; a run that still exists is joined.
        """
        call = RouterCall(request.region, self._timeouts.max_tries)
        remote = request.remote

        def observe(view: InferenceView | None) -> None:
            nonlocal remote
            if view is not None:
                remote = view.remote
            on_state(view)

        if again:
            call.assigned = await self._find_existing_run(request)
        while True:
            endpoint = call.choose_router(self._endpoints, self._clock.now())
            sent_at = self._clock.now()
            body = None if call.accepted else _encode(request, remote)
            endpoint.in_flight += 1
            try:
                answer = await self._runs[endpoint].ask(request.request_id, body, observe)
            finally:
                endpoint.in_flight -= 1
            reply = answer if isinstance(answer, NoReply) else parse_reply(answer, request)
            now = self._clock.now()
            pause_s = call.apply(endpoint, reply, now=now, took_s=now - sent_at)
            if isinstance(reply, InferenceView):
                if reply.state.terminal:
                    return reply
                observe(reply)
            if pause_s > 0:
                await self._clock.sleep(pause_s)

    async def stream(self, request: EncodedRequest, on_event: OnEvent) -> None:
        """States and parts of the response, up to the terminal state; cancelling it cancels the inference."""
        await self._streams.run(request, _with_ids(self._stream_headers), on_event)

    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None:
        """The request's state at the router that holds it; None when no router knows it."""
        answers = await self._call_all("GET", _path(request_id), region)
        return next((view for view in map(_view, answers) if view is not None), None)

    async def cancel(
        self,
        request_id: str,
        region: str | None = None,
        *,
        fence: int | None = None,
        remote: RemoteRun | None = None,
    ) -> CancelResult:
        """Cancel it at every router that may hold it; idempotent.

        With a `fence`, a run under a later fence continues, and later requests under an earlier fence are
        refused. A router that does not know it cancels the run `remote` at its backend.
        """
        query: dict[str, str | int] = {} if fence is None else {"fence": fence}
        if remote is not None:
            query |= {"backend": remote.backend, "run_id": remote.run_id}
        path = f"{_path(request_id)}?{urlencode(query)}" if query else _path(request_id)
        result = combine_cancel_replies(await self._call_all("DELETE", path, region))
        for reason in result.unanswered:
            log.warning("router_cancel_unanswered", request=request_id, reason=reason)
        return result

    async def status(self) -> list[RouterStatus]:
        """The queues of every router, in the order of the addresses; never raises for an unavailable one."""
        answers = await self._call_all("GET", "/queue/status", None)
        return [
            _status(endpoint, answer) for endpoint, answer in zip(self._endpoints.all, answers, strict=True)
        ]

    async def scheduler(self) -> list[SchedulerStatus]:
        """The scheduler status of the routers that answer."""
        answers = await self._call_all("GET", "/status", None)
        found = [_scheduler(answer) for answer in answers]
        return [one for one in found if one is not None]

    async def configs(self) -> list[RouterRevision]:
        """What every router runs on, in the order of the addresses."""
        answers = await self._call_all("GET", CONFIG_PATH, None)
        return [
            _revision(endpoint.url, answer)
            for endpoint, answer in zip(self._endpoints.all, answers, strict=True)
        ]

    async def configure(self, url: str, request: RouterConfigRequest) -> RouterRevision:
        """Send a revision to the router at an address of `configs`."""
        body = request.model_dump_json().encode()
        try:
            answer = await self._transport.exchange(
                "PUT", url + CONFIG_PATH, _with_ids(self._headers), body, timeout_s=self._timeouts.exchange_s
            )
        except RouterExchangeError as error:
            return RouterRevision(url=url, errors=[str(error)])
        return _revision(url, answer)

    async def aclose(self) -> None:
        await self._tasks.close()
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _find_existing_run(self, request: InferenceRequest) -> RouterEndpoint | None:
        """The router where an earlier worker's run of this request is live or completed.

        A router that is unavailable is not asked while it backs off, so that searches do not all wait for it.
        """
        routers = self._endpoints.serving(request.region)
        if len(routers) < 2:
            return None
        routers = [router for router in routers if not router.is_unavailable(self._clock.now())]
        sent_at = self._clock.now()
        found = list(
            zip(routers, await asyncio.gather(*(self._look_up(one, request) for one in routers)), strict=True)
        )
        for router, answer in found:
            if isinstance(answer, NoReply):
                router.record_failure(self._clock.now(), sent_at=sent_at)
        for router, answer in found:
            if isinstance(answer, NoReply) or answer.status not in (200, 202):
                continue
            view = view_of(answer)
            if isinstance(view, InferenceView) and (
                not view.state.terminal or view.state is InferenceState.COMPLETED
            ):
                log.info(
                    "existing_run_joined", request=request.request_id, router=router.url, state=view.state
                )
                return router
        return None

    async def _look_up(self, router: RouterEndpoint, request: InferenceRequest) -> BatchAnswer | NoReply:
        """Repeated once after a lost connection."""
        answer = await self._lookups[router].ask(request.request_id, None)
        if isinstance(answer, NoReply) and answer.sent:
            answer = await self._lookups[router].ask(request.request_id, None)
        return answer

    def _batches(self, *, wait_s: int, timeout_s: float) -> dict[RouterEndpoint, RouterBatches]:
        headers = {**self._headers, "accept": NDJSON, "prefer": f"wait={wait_s}"}
        return {
            endpoint: RouterBatches(
                self._transport,
                endpoint.url,
                headers,
                self._tasks,
                timeout_s=timeout_s,
                max_bytes=self._max_batch_bytes,
            )
            for endpoint in self._endpoints.all
        }

    async def _call_all(
        self, method: str, path: str, region: str | None
    ) -> list[HttpAnswer | RouterExchangeError]:
        serving = self._endpoints.serving(region)
        return await asyncio.gather(*(self._call_short(method, endpoint, path) for endpoint in serving))

    async def _call_short(
        self, method: str, endpoint: RouterEndpoint, path: str
    ) -> HttpAnswer | RouterExchangeError:
        """One short idempotent call, repeated once after a lost connection."""
        url, timeout_s = endpoint.url + path, self._timeouts.short_s
        for last in (False, True):
            try:
                return await self._transport.exchange(
                    method, url, _with_ids(self._headers), timeout_s=timeout_s
                )
            except RouterExchangeError as error:
                if last or not error.sent:
                    return error
        raise AssertionError("unreachable")


def _with_ids(headers: Mapping[str, str]) -> dict[str, str]:
    return {**headers, **outgoing_headers()}


def _path(request_id: str) -> str:
    return f"/inference/{quote(request_id, safe='')}"


def _encode(request: InferenceRequest, remote: RemoteRun | None) -> bytes:
    """`remote`: a run that a lost router has started."""
    if remote != request.remote:
        request = request.model_copy(update={"remote": remote})
    try:
        return request.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise RouterRefused(
            Problem(
                title="Unprocessable Content",
                status=422,
                code="input_not_json",
                detail=f"The input is not JSON: {error}",
            )
        ) from error


def _view(answer: HttpAnswer | RouterExchangeError) -> InferenceView | None:
    if isinstance(answer, RouterExchangeError) or answer.status not in (200, 202):
        return None
    try:
        return InferenceView.model_validate_json(answer.body)
    except ValidationError:
        log.warning("router_answer_invalid", status=answer.status)
        return None


def _scheduler(answer: HttpAnswer | RouterExchangeError) -> SchedulerStatus | None:
    if isinstance(answer, RouterExchangeError) or answer.status != 200:
        return None
    try:
        return SchedulerStatus.model_validate_json(answer.body)
    except ValidationError:
        return None


def _revision(url: str, answer: HttpAnswer | RouterExchangeError) -> RouterRevision:
    if isinstance(answer, RouterExchangeError):
        return RouterRevision(url=url, errors=[str(answer)])
    if answer.status != 200:
        return RouterRevision(url=url, errors=[f"status {answer.status}"])
    try:
        view = RouterConfigView.model_validate_json(answer.body)
    except ValidationError:
        return RouterRevision(url=url, errors=["the response is not a configuration"])
    return RouterRevision(url=url, **view.model_dump(exclude={"applied_at"}))


def _status(endpoint: RouterEndpoint, answer: HttpAnswer | RouterExchangeError) -> RouterStatus:
    if isinstance(answer, RouterExchangeError):
        return RouterStatus(endpoint.url, endpoint.in_flight, None, str(answer))
    if answer.status != 200:
        return RouterStatus(endpoint.url, endpoint.in_flight, None, f"status {answer.status}")
    try:
        return RouterStatus(endpoint.url, endpoint.in_flight, QueueStatus.model_validate_json(answer.body))
    except ValidationError as error:
        return RouterStatus(endpoint.url, endpoint.in_flight, None, f"the response is not a status: {error}")
