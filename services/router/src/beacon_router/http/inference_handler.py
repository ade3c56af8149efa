"""What `/inference` does, without a framework around it: a scope in, a reply out."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from beacon_http.problems import make_problem
from beacon_http.replies import Headers, Reply, problem_reply
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.bodies import BodyReader
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.prefer import AT_ONCE, UNTIL_DONE, Preference, preference_of
from beacon_router.http.presenter import Views
from beacon_router.scheduling import RequestId
from beacon_router.service.dispatcher import Dispatcher
from beacon_router.service.failures import ROUTER_STOPPING, START_BY_PASSED
from beacon_router.service.inference import Inference
from beacon_router.service.waiters import Wait

# Failures that say nothing of the work itself: the caller asks again, here or elsewhere.
_NOT_RUN = {START_BY_PASSED: 504, ROUTER_STOPPING: 503}
_ASK_AGAIN_S = 1.0


class InferenceHandler:
    def __init__(
        self,
        dispatcher: Dispatcher,
        reader: InferenceParser,
        views: Views,
        auth: ServiceAuth,
        bodies: BodyReader,
    ) -> None:
        self._dispatcher = dispatcher
        self._reader = reader
        self._views = views
        self._auth = auth
        self._bodies = bodies

    def check(self, scope: Scope) -> None:
        """Raises the reason why this caller may not ask."""
        self._auth.check(scope)

    def take(self, scope: Scope, body: bytes, answer: Callable[[Reply], None]) -> Wait | None:
        """Queue or join; `answer` hears once of the result or where it stands, maybe before this returns."""
        ask, payload = self._reader.read(body)
        inference = self._dispatcher.submit(ask, payload)
        return self._promise(inference, preference_of(scope, UNTIL_DONE), answer)

    async def ask(self, scope: Scope, receive: Receive) -> Reply:
        """The same as `take`, for a server that has a task for each request."""
        self.check(scope)
        body = await self._bodies.read(scope, receive)
        return await _awaited(partial(self.take, scope, body), receive)

    async def look(self, scope: Scope, receive: Receive, request_id: str) -> Reply:
        self.check(scope)
        inference = self._dispatcher.get(RequestId(request_id))
        return await _awaited(partial(self._promise, inference, preference_of(scope, AT_ONCE)), receive)

    def cancel(self, scope: Scope, request_id: str, fence: int | None) -> Reply:
        self.check(scope)
        inference = self._dispatcher.cancel(RequestId(request_id), fence)
        return Reply(200, self._views.render(inference))

    def _promise(
        self, inference: Inference, preference: Preference, answer: Callable[[Reply], None]
    ) -> Wait | None:
        def told() -> None:
            answer(self._answer(inference, preference))

        wait = self._dispatcher.when_done(inference, preference.wait_s, told)
        if wait is None:
            told()
        return wait

    def _answer(self, inference: Inference, preference: Preference) -> Reply:
        headers: Headers = ()
        if preference.applied is not None:
            headers = ((b"preference-applied", preference.applied.encode()),)
        if not inference.done:
            location = f"/inference/{quote(inference.id, safe='')}".encode()
            return Reply(202, self._views.render(inference), (*headers, (b"location", location)))
        failure = inference.failure
        if failure is not None and failure.code in _NOT_RUN:
            status = _NOT_RUN[failure.code]
            problem = make_problem(status, failure.code, failure.message, retry_after_s=_ASK_AGAIN_S)
            return problem_reply(problem, headers)
        return Reply(200, self._views.render(inference), headers)


async def _awaited(begin: Callable[[Callable[[Reply], None]], Wait | None], receive: Receive) -> Reply:
    """The reply that a callback brings; a caller that hangs up before is forgotten."""
    came: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    wait = begin(came.set_result)
    if wait is None:
        return came.result()
    hung_up = asyncio.ensure_future(_disconnected(receive))
    first: set[asyncio.Future[Any]] = {came, hung_up}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    finally:
        wait.forget()
        hung_up.cancel()
    if not came.done():
        raise ClientDisconnect
    return came.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
