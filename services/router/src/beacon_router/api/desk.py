"""What `/inference` does, without a framework around it: a scope in, a reply out."""

from urllib.parse import quote

from starlette.types import Receive, Scope

from beacon_router.api.asking import AskReader
from beacon_router.api.auth import ServiceAuth
from beacon_router.api.prefer import AT_ONCE, UNTIL_DONE, Preference, preference_of
from beacon_router.api.views import Views
from beacon_router.core import RequestId
from beacon_router.dispatch.causes import ROUTER_STOPPING, START_BY_PASSED
from beacon_router.dispatch.dispatcher import Dispatcher
from beacon_router.dispatch.inference import Inference
from beacon_web.bodies import read_body
from beacon_web.problems import make_problem
from beacon_web.replies import Headers, Reply, problem_reply

# Failures that say nothing of the work itself: the caller asks again, here or elsewhere.
_NOT_RUN = {START_BY_PASSED: 504, ROUTER_STOPPING: 503}
_ASK_AGAIN_S = 1.0


class InferenceDesk:
    def __init__(
        self, dispatcher: Dispatcher, reader: AskReader, views: Views, auth: ServiceAuth, *, body_bytes: int
    ) -> None:
        self._dispatcher = dispatcher
        self._reader = reader
        self._views = views
        self._auth = auth
        self._body_bytes = body_bytes

    async def ask(self, scope: Scope, receive: Receive) -> Reply:
        """Queue or join, and answer with the result or where it stands."""
        self._auth.check(scope)
        ask, payload = self._reader.read(await read_body(scope, receive, self._body_bytes))
        inference = self._dispatcher.submit(ask, payload)
        return await self._answer(inference, preference_of(scope, UNTIL_DONE))

    async def look(self, scope: Scope, request_id: str) -> Reply:
        self._auth.check(scope)
        inference = self._dispatcher.get(RequestId(request_id))
        return await self._answer(inference, preference_of(scope, AT_ONCE))

    def cancel(self, scope: Scope, request_id: str, fence: int | None) -> Reply:
        self._auth.check(scope)
        inference = self._dispatcher.cancel(RequestId(request_id), fence)
        return Reply(200, self._views.render(inference))

    async def _answer(self, inference: Inference, preference: Preference) -> Reply:
        done = await self._dispatcher.wait(inference, preference.wait_s)
        headers: Headers = ()
        if preference.applied is not None:
            headers = ((b"preference-applied", preference.applied.encode()),)
        if not done:
            location = f"/inference/{quote(inference.id, safe='')}".encode()
            return Reply(202, self._views.render(inference), (*headers, (b"location", location)))
        failure = inference.failure
        if failure is not None and failure.code in _NOT_RUN:
            status = _NOT_RUN[failure.code]
            problem = make_problem(status, failure.code, failure.message, retry_after_s=_ASK_AGAIN_S)
            return problem_reply(problem, headers)
        return Reply(200, self._views.render(inference), headers)
