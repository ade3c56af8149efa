"""The routes of `/inference`, with their documentation."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.inference import HIGHEST_FENCE, InferenceView, RemoteRun
from beacon_http.plain_route import PlainRoute
from beacon_router.http.batch_handler import BATCH_PATH, BatchHandler
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.openapi import BATCH_ANSWERS, BATCH_BODY, INFERENCE_BODY, PREFER_HEADER, problems

Fence = Annotated[
    int | None,
    Query(
        ge=0,
        le=HIGHEST_FENCE,
        description="Refused if the inference has a higher fence; lower fences are refused from then on",
    ),
]

RemoteBackendName = Annotated[
    str | None,
    Query(
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
        description="With `run_id`: where its run is cancelled if the router does not know the inference",
    ),
]
RemoteRunId = Annotated[str | None, Query(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]


def inference_routes(handler: InferenceHandler, batches: BatchHandler) -> APIRouter:
    routes = APIRouter(tags=["inference"])

    routes.add_api_route(
        "/inference",
        handler.submit,
        methods=["POST"],
        route_class_override=PlainRoute,
        summary="Run one inference and return its result",
        responses={
            200: {
                "model": InferenceView,
                "description": "Ended: completed, failed or cancelled; or server-sent events, if asked for",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            202: {"model": InferenceView, "description": "Not done yet; follow Location"},
            **problems(400, 401, 403, 408, 409, 413, 422, 429, 503, 504),
        },
        openapi_extra={"requestBody": INFERENCE_BODY, "parameters": [PREFER_HEADER]},
    )

    routes.add_api_route(
        BATCH_PATH,
        batches.exchange,
        methods=["POST"],
        route_class_override=PlainRoute,
        summary="Send and poll many inferences in one exchange",
        responses={200: BATCH_ANSWERS, **problems(400, 401, 403, 408, 413, 422, 429)},
        openapi_extra={"requestBody": BATCH_BODY, "parameters": [PREFER_HEADER]},
    )

    @routes.get(
        "/inference/{request_id:path}",
        summary="The state or result of an inference; waits with Prefer",
        responses={
            200: {"model": InferenceView, "description": "Ended"},
            202: {"model": InferenceView, "description": "Not done yet"},
            **problems(401, 403, 404, 503, 504),
        },
        openapi_extra={"parameters": [PREFER_HEADER]},
    )
    async def get(request: Request, request_id: str) -> Response:
        return await handler.get(request, request_id)

    @routes.delete(
        "/inference/{request_id:path}",
        summary="Cancel an inference, queued or running",
        responses={
            200: {"model": InferenceView},
            204: {"description": "Not known here; its run was cancelled at the backend"},
            **problems(401, 403, 404, 409, 422, 502),
        },
    )
    async def cancel(
        request: Request,
        request_id: str,
        fence: Fence = None,
        backend: RemoteBackendName = None,
        run_id: RemoteRunId = None,
    ) -> Response:
        remote = None if backend is None or run_id is None else RemoteRun(backend=backend, run_id=run_id)
        return await handler.cancel(request, request_id, fence, remote)

    return routes
