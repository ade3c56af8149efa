"""The client of the router: runs an inference to its end, whatever happens to the connections on the way."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx
import structlog
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from beacon_client.errors import RouterRefused
from beacon_client.router_answers import Done, Meaning, understand
from beacon_client.router_cancels import Withdrawal, withdrawal_of
from beacon_client.router_endpoints import Endpoint, Endpoints
from beacon_client.router_journey import Journey, Unanswered
from beacon_client.transport import Answer, ExchangeError, exchange, open_transport
from beacon_contracts.inference import InferenceRequest, InferenceState, InferenceView
from beacon_contracts.problem import Problem
from beacon_contracts.router_status import QueueStatus, SchedulerStatus
from beacon_lifecycle.clock import Clock, SystemClock
from beacon_telemetry import outgoing_headers

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RouterTimes:
    """How long one call may last. `exchange_s` stays below what proxies cut off."""

    wait_s: int = 25
    exchange_s: float = 30.0
    connect_s: float = 3.0
    short_s: float = 5.0
    max_tries: int = 7


@dataclass(frozen=True, slots=True)
class RouterStatus:
    """What one router says of itself, or why it says nothing."""

    url: str
    in_flight: int
    queues: QueueStatus | None
    error: str | None = None


class RouterClient:
    """Typed calls to one or more routers. Safe for any number of concurrent callers."""

    def __init__(
        self,
        base_urls: Sequence[str],
        token: str,
        clock: Clock | None = None,
        *,
        times: RouterTimes | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoints = Endpoints(base_urls)
        self._clock = clock or SystemClock()
        self._times = times or RouterTimes()
        self._transport = transport or open_transport()
        self._headers = [
            (b"authorization", f"Bearer {token}".encode()),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
            (b"content-type", b"application/json"),
        ]
        self._waiting_headers = [*self._headers, (b"prefer", f"wait={self._times.wait_s}".encode())]
        self._extensions = {"timeout": {"connect": self._times.connect_s}}

    async def infer(self, request: InferenceRequest, *, again: bool = False) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy`, `RouterUnreachable` or `RouterRefused` instead.

        `again`: somebody has asked for it before. Where it still runs, it is joined.
        """
        body = _encode(request)
        home = await self._left_at(request) if again else None
        journey = Journey(request.region, self._times.max_tries, home=home)
        while True:
            endpoint = journey.next_router(self._endpoints, self._clock.now())
            asked_at = self._clock.now()
            meaning = await self._ask(endpoint, request, None if journey.accepted else body)
            now = self._clock.now()
            pause_s = journey.learn(endpoint, meaning, now=now, took_s=now - asked_at)
            if isinstance(meaning, Done):
                return meaning.view
            if pause_s > 0:
                await self._clock.sleep(pause_s)

    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None:
        """Where the request stands now, at whichever router has it; none when no router answers for it."""
        answers = await self._ask_all("GET", _path(request_id), region)
        return next((view for view in map(_view, answers) if view is not None), None)

    async def cancel(
        self, request_id: str, region: str | None = None, *, fence: int | None = None
    ) -> Withdrawal:
        """Cancel it at every router that may have it; idempotent, and the answer stays the same.

        With a `fence`, a run that a later lease has taken over goes on, and what an earlier one asks for
        after this is refused.
        """
        path = _path(request_id) if fence is None else f"{_path(request_id)}?fence={fence}"
        answer = withdrawal_of(await self._ask_all("DELETE", path, region))
        for reason in answer.silent:
            log.warning("router_cancel_unanswered", request=request_id, reason=reason)
        return answer

    async def status(self) -> list[RouterStatus]:
        """The queues of every router, in the order of the addresses; never raises for one that is away."""
        answers = await self._ask_all("GET", "/queue/status", None)
        return [
            _status(endpoint, answer) for endpoint, answer in zip(self._endpoints.all, answers, strict=True)
        ]

    async def scheduler(self) -> list[SchedulerStatus]:
        """What the routers that answer say of their schedulers."""
        answers = await self._ask_all("GET", "/status", None)
        found = [_scheduler(answer) for answer in answers]
        return [one for one in found if one is not None]

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _left_at(self, request: InferenceRequest) -> Endpoint | None:
        """The router where an earlier holder of the same work has left it running, or completed.

        One that stays silent rests, and is not asked while it does: all who look for their work would wait.
        """
        routers = self._endpoints.serving(request.region)
        if len(routers) < 2:
            return None
        routers = [router for router in routers if not router.is_away(self._clock.now())]
        asked = (self._ask_short("GET", router, _path(request.request_id)) for router in routers)
        found = list(zip(routers, await asyncio.gather(*asked), strict=True))
        for router, answer in found:
            if isinstance(answer, ExchangeError):
                router.failed(self._clock.now())
        for router, answer in found:
            view = _view(answer)
            if view is not None and (not view.state.terminal or view.state is InferenceState.COMPLETED):
                log.info("run_found_again", request=request.request_id, router=router.url, state=view.state)
                return router
        return None

    async def _ask(
        self, endpoint: Endpoint, request: InferenceRequest, body: bytes | None
    ) -> Meaning | Unanswered:
        """POST the request, or long-poll it when `body` is none."""
        if body is None:
            call = self._request(
                "GET", endpoint, endpoint.url + _path(request.request_id), self._waiting_headers
            )
        else:
            call = self._request("POST", endpoint, endpoint.inference_url, self._waiting_headers, body)
        endpoint.in_flight += 1
        try:
            answer = await exchange(self._transport, call, timeout_s=self._times.exchange_s)
        except ExchangeError as error:
            return Unanswered(str(error), error.sent)
        finally:
            endpoint.in_flight -= 1
        return understand(answer, request)

    async def _ask_all(self, method: str, path: str, region: str | None) -> list[Answer | ExchangeError]:
        serving = self._endpoints.serving(region)
        return await asyncio.gather(*(self._ask_short(method, endpoint, path) for endpoint in serving))

    async def _ask_short(self, method: str, endpoint: Endpoint, path: str) -> Answer | ExchangeError:
        """One quick call; a connection that broke is tried once more, all of these calls being idempotent."""
        for last in (False, True):
            call = self._request(method, endpoint, endpoint.url + path, self._headers)
            try:
                return await exchange(self._transport, call, timeout_s=self._times.short_s)
            except ExchangeError as error:
                if last or not error.sent:
                    return error
        raise AssertionError("unreachable")

    def _request(
        self,
        method: str,
        endpoint: Endpoint,
        url: str | httpx.URL,
        headers: list[tuple[bytes, bytes]],
        body: bytes | None = None,
    ) -> httpx.Request:
        ids = [(name.encode(), value.encode()) for name, value in outgoing_headers().items()]
        return httpx.Request(
            method,
            url,
            headers=[(b"host", endpoint.host), *headers, *ids],
            content=body,
            extensions=self._extensions,
        )


def _path(request_id: str) -> str:
    return f"/inference/{quote(request_id, safe='')}"


def _encode(request: InferenceRequest) -> bytes:
    try:
        return request.__pydantic_serializer__.to_json(request)
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise RouterRefused(
            Problem(
                title="Bad input", status=422, code="input_not_json", detail=f"The input is not JSON: {error}"
            )
        ) from error


def _view(answer: Answer | ExchangeError) -> InferenceView | None:
    if isinstance(answer, ExchangeError) or answer.status not in (200, 202):
        return None
    try:
        return InferenceView.model_validate_json(answer.body)
    except ValidationError:
        log.warning("router_answer_not_understood", status=answer.status)
        return None


def _scheduler(answer: Answer | ExchangeError) -> SchedulerStatus | None:
    if isinstance(answer, ExchangeError) or answer.status != 200:
        return None
    try:
        return SchedulerStatus.model_validate_json(answer.body)
    except ValidationError:
        return None


def _status(endpoint: Endpoint, answer: Answer | ExchangeError) -> RouterStatus:
    if isinstance(answer, ExchangeError):
        return RouterStatus(endpoint.url, endpoint.in_flight, None, str(answer))
    if answer.status != 200:
        return RouterStatus(endpoint.url, endpoint.in_flight, None, f"status {answer.status}")
    try:
        return RouterStatus(endpoint.url, endpoint.in_flight, QueueStatus.model_validate_json(answer.body))
    except ValidationError as error:
        return RouterStatus(endpoint.url, endpoint.in_flight, None, f"its answer is not a status: {error}")
