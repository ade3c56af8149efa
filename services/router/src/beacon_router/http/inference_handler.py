"""The operations of `/inference`: submit, get, cancel."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from beacon_contracts.inference import RemoteRun
from beacon_http.disconnect import wait_while_connected
from beacon_http.json_body import json_object
from beacon_http.problems import HttpProblemError
from beacon_http.replies import JSON
from beacon_router.backends import BackendError
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.bodies import BodyReader
from beacon_router.http.inference_events import InferenceEvents, accepts_events
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.prefer import IMMEDIATELY, UNTIL_DONE, Preference, preference_of
from beacon_router.http.presenter import InferencePresenter
from beacon_router.scheduling import RequestId
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.errors import UnknownInferenceError
from beacon_router.service.inference import Inference


class InferenceHandler:
    def __init__(
        self,
        dispatch: DispatchService,
        parser: InferenceParser,
        presenter: InferencePresenter,
        auth: ServiceAuth,
        bodies: BodyReader,
    ) -> None:
        self._dispatch = dispatch
        self._parser = parser
        self._presenter = presenter
        self._auth = auth
        self._bodies = bodies

    async def submit(self, request: Request) -> ASGIApp:
        """Queue or join; responds when it has ended or the preferred wait has passed, or streams events."""
        self._auth.check(request.scope)
        events = accepts_events(request.scope)
        spec = self._parser.parse(json_object(await self._bodies.read(request)), streams=events)
        if events:
            return InferenceEvents(self._dispatch.submit_alone(spec), self._dispatch, self._presenter)
        inference = self._dispatch.submit(spec)
        del spec  # its input is dropped when it has ended
        return await self._wait(inference, preference_of(request.scope, UNTIL_DONE), request.scope)

    async def get(self, request: Request, request_id: str) -> Response:
        self._auth.check(request.scope)
        inference = self._dispatch.get(RequestId(request_id))
        return await self._wait(inference, preference_of(request.scope, IMMEDIATELY), request.scope)

    async def cancel(
        self, request: Request, request_id: str, fence: int | None, remote: RemoteRun | None
    ) -> Response:
        """`remote`: its run at a provider, which is cancelled if the inference is not known here."""
        self._auth.check(request.scope)
        try:
            inference = self._dispatch.cancel(RequestId(request_id), fence)
        except UnknownInferenceError:
            if remote is None:
                raise
            await self._cancel_remote(remote)
            return Response(status_code=204)
        return Response(self._presenter.render(inference), media_type=JSON.decode())

    async def _cancel_remote(self, remote: RemoteRun) -> None:
        try:
            await self._dispatch.cancel_remote(remote)
        except BackendError as error:
            raise HttpProblemError(502, "cancel_failed", f"{remote.backend}: {error.message}") from error

    async def _wait(self, inference: Inference, preference: Preference, scope: Scope) -> Response:
        """Responds when it has ended or the preferred wait has passed.

        The waiter is removed when the client disconnects; the inference continues.
        """
        if not inference.done and preference.wait_s != 0:
            await wait_while_connected(scope, self._dispatch.waiter(inference, preference.wait_s))
        response = self._presenter.answer(inference).response()
        if preference.applied is not None:
            response.headers["preference-applied"] = preference.applied
        return response
