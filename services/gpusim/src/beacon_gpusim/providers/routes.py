"""The routes of the providers: submit, status, result, cancel."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.faults import FaultKind
from beacon_gpusim.core.media import media_fields
from beacon_gpusim.core.outputs import emptied, text_output
from beacon_gpusim.dialects import BadInputError
from beacon_gpusim.http.answers import Answer, send_answer
from beacon_gpusim.http.broken_connections import reset_connection
from beacon_gpusim.http.exchange import JSON, HttpExchange
from beacon_gpusim.http.media_routes import media_address
from beacon_gpusim.providers.apis import APIS, ProviderApi, RunState
from beacon_gpusim.providers.runs import ProviderRun, ProviderRuns, RunPhase


def provider_routes(runs: ProviderRuns, region: str, body_bytes: int) -> list[BaseRoute]:
    routes: list[BaseRoute] = []
    for api in APIS:
        provider = _Provider(api, runs, region, body_bytes)
        routes.append(Route(api.status_path, Endpoint(provider.status), methods=["GET"]))
        if api.result_path is not None:
            routes.append(Route(api.result_path, Endpoint(provider.result), methods=["GET"]))
        method, path = api.cancel
        routes.append(Route(path, Endpoint(provider.cancel), methods=[method]))
        routes.append(Route(api.submit_path, Endpoint(provider.submit), methods=["POST"]))
    return routes


class _Provider:
    def __init__(self, api: ProviderApi, runs: ProviderRuns, region: str, body_bytes: int) -> None:
        self._api = api
        self._runs = runs
        self._region = region
        self._body_bytes = body_bytes

    async def submit(self, exchange: HttpExchange) -> None:
        try:
            body = await exchange.read_body(self._body_bytes)
            model = exchange.request.path_params.get("model")
            prompt = self._api.prompt(body, model, self._region)
        except BadInputError as error:
            await exchange.respond(error.status, orjson.dumps({"detail": error.message}))
            return
        except ClientDisconnect:
            return
        run = self._runs.submit(self._api.name, prompt)
        call = None if run.handle is None else run.handle.call
        if call is not None and call.outcome is CallOutcome.RESET:
            await reset_connection(exchange)
        elif call is not None and call.outcome is CallOutcome.ERROR and call.fault is not None:
            wait_s = call.fault.retry_after_s
            headers = None if wait_s is None else {"retry-after": f"{wait_s:g}"}
            await exchange.respond(call.fault.status, orjson.dumps({"detail": "refused"}), headers=headers)
        else:
            status, document = self._api.accepted(self._state(run, exchange))
            await exchange.respond(status, orjson.dumps(document))

    async def status(self, exchange: HttpExchange) -> None:
        run = await self._known(exchange)
        if run is not None:
            state = self._state(run, exchange)
            status, document = self._api.status(state)
            whole = state.phase is RunPhase.COMPLETED and self._api.result_path is None
            await self._answer(exchange, run if whole else None, status, document)

    async def result(self, exchange: HttpExchange) -> None:
        run = await self._known(exchange)
        if run is not None:
            state = self._state(run, exchange)
            if state.phase is RunPhase.COMPLETED:
                await self._answer(exchange, run, 200, {"output": state.output})
            else:
                await exchange.respond(400, orjson.dumps({"detail": "the request is still in progress"}))

    async def cancel(self, exchange: HttpExchange) -> None:
        run = await self._known(exchange)
        if run is not None:
            ended = not self._runs.cancel(run)
            await exchange.respond(400 if ended else 200, orjson.dumps({"id": run.id}))

    async def _known(self, exchange: HttpExchange) -> ProviderRun | None:
        run = self._runs.get(exchange.request.path_params["run_id"])
        if run is None:
            await exchange.respond(404, orjson.dumps({"detail": "there is no such run"}))
        return run

    async def _answer(
        self, exchange: HttpExchange, run: ProviderRun | None, status: int, document: Any
    ) -> None:
        """`run`: the completed run whose output the answer has; its fault applies to the answer."""
        if status == 200:
            fault = None if run is None else run.fault
            padding = fault.size if fault is not None and fault.kind is FaultKind.HUGE else 0
            parts = [orjson.dumps(document), *[b" " * 65_536] * (padding // 65_536)]
            await send_answer(exchange, Answer(JSON, parts), fault)
        else:
            await exchange.respond(status, orjson.dumps(document))

    def _state(self, run: ProviderRun, exchange: HttpExchange) -> RunState:
        now = self._runs.engine.now()
        phase = run.phase(now)
        output = output_of(run, self._runs, exchange.request) if phase is RunPhase.COMPLETED else None
        base_url = str(exchange.request.base_url).rstrip("/")
        return RunState(run, phase, run.share_done(now), output, base_url)


def output_of(run: ProviderRun, runs: ProviderRuns, request: Request) -> Any:
    """Text, or the fields of a file as the model returns it."""
    spec = runs.engine.gpu.media.get(run.prompt.model)
    if spec is None:
        return "" if run.empty else text_output(run.prompt)
    url = media_address(request, spec.kind, run.prompt, spec.min_bytes)
    fields = media_fields(spec, run.prompt, url, min_bytes=spec.min_bytes)
    return emptied(fields) if run.empty else fields


class Endpoint:
    """An ASGI endpoint, so that answers can break off in the middle."""

    def __init__(self, handler: Callable[[HttpExchange], Awaitable[None]]) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(HttpExchange(Request(scope, receive, send), send))
