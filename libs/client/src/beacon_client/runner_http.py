"""Calls to the runner: errors become `BeaconError`, and what is safe to repeat is repeated."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx
import orjson
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_client.transport import never_connected, open_transport, reason_of
from beacon_contracts.problem import Problem
from beacon_lifecycle.clock import Clock, SystemClock
from beacon_telemetry import outgoing_headers

TRIES = 5
LONGEST_PAUSE_S = 5.0
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
# Heartbeats come every 15 s; three missing ones mean that the connection is dead.
STREAM_TIMEOUT = httpx.Timeout(None, connect=5.0, read=45.0)
_PASSING = (502, 503, 504)


class RunnerHttp:
    """One runner's address and one key."""

    def __init__(
        self,
        base_url: str,
        key: str,
        clock: Clock | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._clock = clock or SystemClock()
        headers = {"accept": "application/json", "user-agent": "beacon-client"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            timeout=TIMEOUT,
            transport=transport or open_transport(),
            trust_env=False,
        )
        self._pause = wait_exponential(multiplier=0.2, max=LONGEST_PAUSE_S) + wait_random(0, 0.1)

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return await self._call("GET", path, repeatable=True, params=given)

    async def post(
        self,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> bytes:
        """`repeatable` says that the server recognises a repetition (an Idempotency-Key, a state reached)."""
        content = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {"content-type": "application/json", **(headers or {})}
        return await self._call("POST", path, repeatable=repeatable, content=content, headers=sent)

    async def delete(self, path: str) -> bytes:
        return await self._call("DELETE", path, repeatable=True)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """An answer that is read as it comes; not repeated."""
        sent = {**outgoing_headers(), **headers}
        async with (
            self._translated(),
            self._client.stream("GET", path, headers=sent, timeout=STREAM_TIMEOUT) as response,
        ):
            if response.status_code >= 400:
                await response.aread()
                raise BeaconError(problem_of(response))
            yield response

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _call(self, method: str, path: str, *, repeatable: bool, **options: Any) -> bytes:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(TRIES),
            retry=retry_if_exception(lambda error: _worth_repeating(error, repeatable=repeatable)),
            wait=self._wait,
            sleep=self._clock.sleep,
            reraise=True,
        )
        return await retrying(self._once, method, path, options)

    async def _once(self, method: str, path: str, options: dict[str, Any]) -> bytes:
        headers = {**outgoing_headers(), **options.get("headers", {})}
        async with self._translated():
            response = await self._client.request(method, path, **{**options, "headers": headers})
        if response.status_code >= 400:
            raise BeaconError(problem_of(response))
        return response.content

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.StreamError, aiohttp.ClientError, OSError) as error:
            sent = not never_connected(error)
            raise BeaconUnreachable(self.base_url, reason_of(error), sent=sent) from error

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, BeaconError) else None
        return self._pause(state) if asked is None else min(asked, LONGEST_PAUSE_S)


def _worth_repeating(error: BaseException, *, repeatable: bool) -> bool:
    if isinstance(error, BeaconUnreachable):
        return repeatable or not error.sent
    return repeatable and isinstance(error, BeaconError) and error.status in _PASSING


def problem_of(response: httpx.Response) -> Problem:
    """The answer's problem document; one is made up for what is not one (a proxy's page)."""
    retry_after = response.headers.get("retry-after", "")
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        problem = Problem(
            title=response.reason_phrase or "Error",
            status=response.status_code,
            code=f"http_{response.status_code}",
            detail=f"{response.request.method} {response.request.url} answered {response.status_code}",
        )
    if problem.retry_after_s is None and retry_after.isascii() and retry_after.isdigit():
        return problem.model_copy(update={"retry_after_s": float(retry_after)})
    return problem
