"""HTTP calls to the runner: errors become `BeaconError`; requests that are safe to repeat are retried."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import httpx
from httpx_sse import SSEError
from pydantic import ValidationError

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_contracts.problem import Problem

MAX_TRIES = 5
MIN_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
# Heartbeats arrive every 15 s; three missing ones mean that the connection is dead.
STREAM_TIMEOUT = httpx.Timeout(None, connect=5.0, read=45.0)
_TRANSIENT = (502, 503, 504)

Sleep = Callable[[float], Awaitable[None]]


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


Page = TypeVar("Page", bound=_Page)


class RunnerHttp:
    """One runner's address and one key."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        sleep: Sleep = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._sleep = sleep
        headers = {"accept": "application/json", "user-agent": "beacon-client"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            base_url=self.base_url, headers=headers, timeout=TIMEOUT, transport=transport, trust_env=False
        )

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        """The response body; parameters that are None are left out."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return await self._call("GET", path, repeatable=True, params=given)

    async def pages(
        self,
        path: str,
        parse: Callable[[bytes], Page],
        params: Mapping[str, Any] | None = None,
        *,
        cursor: str | None = None,
    ) -> AsyncIterator[Page]:
        """The pages of a list from `cursor`, by default the first one; each is fetched on demand."""
        while True:
            page = parse(await self.get(path, {**(params or {}), "cursor": cursor}))
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    async def post(
        self,
        path: str,
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> bytes:
        """`repeatable`: the server recognises a repetition (an Idempotency-Key, a state already reached)."""
        sent = {"content-type": "application/json", **(headers or {})}
        return await self._call("POST", path, repeatable=repeatable, content=body, headers=sent)

    async def put(
        self, path: str, body: bytes, *, headers: Mapping[str, str] | None = None, repeatable: bool = False
    ) -> bytes:
        sent = {"content-type": "application/json", **(headers or {})}
        return await self._call("PUT", path, repeatable=repeatable, content=body, headers=sent)

    async def patch(self, path: str, body: bytes) -> bytes:
        """Change some fields of a resource. Setting the same values twice is safe, so it is retried."""
        headers = {"content-type": "application/json"}
        return await self._call("PATCH", path, repeatable=True, content=body, headers=headers)

    async def delete(self, path: str, *, repeatable: bool = True) -> bytes:
        """`repeatable`: deleting something that does not exist any more is no error."""
        return await self._call("DELETE", path, repeatable=repeatable)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """A response that is read while it arrives; it is not retried."""
        async with (
            self._translated(),
            self._client.stream(
                "GET", path, headers=dict(headers), timeout=STREAM_TIMEOUT, follow_redirects=True
            ) as response,
        ):
            if response.status_code >= 400:
                await response.aread()
                raise BeaconError(problem_of(response))
            yield response

    async def pause(self, attempt: int) -> None:
        """Wait before the next attempt of something that failed `attempt` times."""
        await self._sleep(_backoff_s(attempt))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, *, repeatable: bool, **options: Any) -> bytes:
        for attempt in range(1, MAX_TRIES + 1):
            try:
                return await self._once(method, path, options)
            except BeaconError as error:
                if attempt == MAX_TRIES or not _may_retry(error, repeatable=repeatable):
                    raise
                pause = _pause_s(error, attempt)
            await self._sleep(pause)
        raise AssertionError("unreachable")

    async def _once(self, method: str, path: str, options: dict[str, Any]) -> bytes:
        async with self._translated():
            response = await self._client.request(method, path, **options)
        if response.status_code >= 400:
            raise BeaconError(problem_of(response))
        return response.content

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.StreamError, SSEError) as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            raise BeaconUnreachable(self.base_url, reason_of(error), sent=sent) from error


def _may_retry(error: BeaconError, *, repeatable: bool) -> bool:
    if isinstance(error, BeaconUnreachable):
        return repeatable or not error.sent
    return repeatable and error.status in _TRANSIENT


def _pause_s(error: BeaconError, attempt: int) -> float:
    """The server's Retry-After, or an exponential pause with jitter."""
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_PAUSE_S)
    return _backoff_s(attempt)


def _backoff_s(attempt: int) -> float:
    jitter_s = random.uniform(0, 0.1)  # noqa: S311 - not a secret
    return min(MIN_PAUSE_S * 2.0 ** (attempt - 1), MAX_PAUSE_S) + jitter_s


def reason_of(error: BaseException) -> str:
    """Why a connection failed or was lost, in few words."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, OSError) and cause.errno is None and isinstance(cause.__cause__, OSError):
        cause = cause.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    # Errors of name resolution have negative numbers, which strerror does not know.
    known = os.strerror(number) if number and number > 0 else str(cause or error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"cannot connect ({known})"
    return f"the connection was lost ({known})"


def problem_of(response: httpx.Response) -> Problem:
    """The problem document of a response; a generated one for other content (a proxy's page)."""
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
