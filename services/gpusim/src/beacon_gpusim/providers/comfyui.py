"""ComfyUI's API: prompts of nodes, a queue, a history, files, and a WebSocket with progress and previews."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import uuid4

import orjson
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.outputs import Prompt
from beacon_gpusim.dialects import BadInputError
from beacon_gpusim.dialects.parsed_call import json_object, object_field, prompt_of
from beacon_gpusim.http.answers import Answer, send_answer, send_parts
from beacon_gpusim.http.broken_connections import reset_connection
from beacon_gpusim.http.exchange import JSON, HttpExchange
from beacon_gpusim.providers.routes import Endpoint
from beacon_gpusim.providers.runs import ProviderRun, ProviderRuns, RunPhase

_MODEL_FIELDS = ("ckpt_name", "unet_name")
_SAMPLER, _SAVE = "sampler", "save"
_EVENT_EVERY_S = 0.02
_STEPS = 20
_PREVIEW_PNG = b"\x00\x00\x00\x01\x00\x00\x00\x02"  # event 1: a preview, as PNG


def comfyui_routes(runs: ProviderRuns, region: str, body_bytes: int) -> list[BaseRoute]:
    server = _ComfyUi(runs, region, body_bytes)
    return [
        Route("/comfyui/prompt", Endpoint(server.prompt), methods=["POST"]),
        Route("/comfyui/history/{run_id}", Endpoint(server.history), methods=["GET"]),
        Route("/comfyui/view", Endpoint(server.view), methods=["GET"]),
        Route("/comfyui/queue", server.queue, methods=["GET"]),
        Route("/comfyui/queue", server.change_queue, methods=["POST"]),
        Route("/comfyui/interrupt", server.interrupt, methods=["POST"]),
        Route("/comfyui/upload/image", server.upload, methods=["POST"]),
        WebSocketRoute("/comfyui/ws", server.events),
    ]


class _ComfyUi:
    def __init__(self, runs: ProviderRuns, region: str, body_bytes: int) -> None:
        self._runs = runs
        self._region = region
        self._body_bytes = body_bytes
        self._clients: dict[str, str] = {}
        """The runs of the clients, by client id."""
        self._uploads: dict[str, bytes] = {}
        self._graphs: dict[str, Any] = {}

    async def prompt(self, exchange: HttpExchange) -> None:
        try:
            data = json_object(await exchange.read_body(self._body_bytes))
            graph = object_field(data, "prompt")
            prompt = self._prompt_of(graph)
        except BadInputError as error:
            failure = {"type": "invalid_prompt", "message": error.message, "details": "", "extra_info": {}}
            await exchange.respond(400, orjson.dumps({"error": failure, "node_errors": {}}))
            return
        except ClientDisconnect:
            return
        run = self._runs.submit("comfyui", prompt, str(data.get("prompt_id") or uuid4()))
        self._graphs[run.id] = graph
        self._clients[str(data.get("client_id", ""))] = run.id
        call = None if run.handle is None else run.handle.call
        if call is not None and call.outcome is CallOutcome.RESET:
            self._runs.drop(run)
            await reset_connection(exchange)
        elif call is not None and call.outcome is CallOutcome.ERROR and call.fault is not None:
            self._runs.drop(run)
            await exchange.respond(call.fault.status, orjson.dumps({"error": {"message": "refused"}}))
        else:
            accepted = {"prompt_id": run.id, "number": 1, "node_errors": {}}
            await exchange.respond(200, orjson.dumps(accepted))

    async def history(self, exchange: HttpExchange) -> None:
        run = self._runs.get(exchange.request.path_params["run_id"])
        phase = None if run is None else self._phase(run)
        if run is None or phase in (RunPhase.QUEUED, RunPhase.RUNNING):
            await exchange.respond(200, b"{}")
            return
        entry = self._entry(run, phase)
        answer = Answer(JSON, [orjson.dumps({run.id: entry})])
        await send_answer(exchange, answer, run.fault if phase is RunPhase.COMPLETED else None)

    async def view(self, exchange: HttpExchange) -> None:
        query = exchange.request.query_params
        run = self._runs.get(query.get("filename", "").removesuffix(".png"))
        if run is None:
            await exchange.respond(404, b"")
            return
        media = media_of(MediaKind.IMAGE, run.prompt)
        await send_parts(exchange, Answer(media.content_type, media.parts))

    async def queue(self, _: Request) -> Response:
        held = [run for run in self._runs.all() if run.api == "comfyui"]
        by_phase = {
            name: [[1, run.id, {}, {}, []] for run in held if self._phase(run) is phase]
            for name, phase in (("queue_running", RunPhase.RUNNING), ("queue_pending", RunPhase.QUEUED))
        }
        return JSONResponse(by_phase)

    async def change_queue(self, request: Request) -> Response:
        for run_id in (await request.json()).get("delete", []):
            run = self._runs.get(run_id)
            if run is not None and self._phase(run) is RunPhase.QUEUED:
                self._runs.cancel(run)
        return Response()

    async def interrupt(self, request: Request) -> Response:
        run = self._runs.get(str((await request.json()).get("prompt_id")))
        if run is not None and self._phase(run) is RunPhase.RUNNING:
            self._runs.cancel(run)
        return Response()

    async def upload(self, request: Request) -> Response:
        async with request.form() as form:
            image = form["image"]
            if not isinstance(image, UploadFile) or image.filename is None:
                return Response(status_code=400)
            folder = str(form.get("subfolder", ""))
            name = f"{folder}/{image.filename}" if folder else image.filename
            self._uploads[name] = await image.read()
            return JSONResponse({"name": image.filename, "subfolder": folder, "type": "input"})

    async def events(self, socket: WebSocket) -> None:
        """Send progress and previews of the run that the client has submitted."""
        await socket.accept()
        client = socket.query_params.get("clientId", "")
        with suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_json({"type": "status", "data": {"sid": client}})
            while not await self._send(socket, self._runs.get(self._clients.get(client, ""))):  # noqa: ASYNC110
                await asyncio.sleep(_EVENT_EVERY_S)
            await socket.close()

    async def _send(self, socket: WebSocket, run: ProviderRun | None) -> bool:
        """The state of the run; true at its end."""
        if run is None:
            return False
        phase = self._phase(run)
        of_run = {"prompt_id": run.id}
        if phase is RunPhase.RUNNING:
            share = run.share_done(self._runs.engine.now())
            node = self._node(run, _SAMPLER)
            await socket.send_json({"type": "executing", "data": {"node": node, **of_run}})
            progress = {"value": int(share * _STEPS), "max": _STEPS, "node": node, **of_run}
            await socket.send_json({"type": "progress", "data": progress})
            image = b"".join(media_of(MediaKind.IMAGE, run.prompt).parts)
            await socket.send_bytes(_PREVIEW_PNG + image)
        elif phase is not RunPhase.QUEUED:
            await socket.send_json({"type": "executing", "data": {"node": None, **of_run}})
            return True
        return False

    def _prompt_of(self, graph: dict[str, Any]) -> Prompt:
        """The model is the file that a loader names, the input all other fields."""
        model, given = "comfyui", {}
        for node in graph.values():
            for field, value in node.get("inputs", {}).items():
                if field in _MODEL_FIELDS:
                    model = str(value).removesuffix(".safetensors")
                elif field == "image":
                    if value not in self._uploads:
                        raise BadInputError(f"image: invalid image file {value!r}", status=400)
                    given[field] = self._uploads[value].decode("latin-1")
                elif not isinstance(value, list):
                    given["prompt" if field == "text" else field] = value
        return prompt_of(model, self._region, given)

    def _entry(self, run: ProviderRun, phase: RunPhase | None) -> dict[str, Any]:
        image = {"filename": f"{run.id}.png", "subfolder": "", "type": "output"}
        outputs = {} if run.empty else {self._node(run, _SAVE): {"images": [image]}}
        messages: list[Any] = [["execution_start", {"prompt_id": run.id}]]
        if phase is RunPhase.CANCELLED:
            messages.append(["execution_interrupted", {"prompt_id": run.id}])
        elif phase is RunPhase.FAILED:
            failure = {"exception_message": "the model has failed", "node_type": "KSampler"}
            messages.append(["execution_error", failure])
        completed = phase is RunPhase.COMPLETED
        status = {"status_str": "success" if completed else "error", "completed": completed}
        return {"outputs": outputs if completed else {}, "status": {**status, "messages": messages}}

    def _node(self, run: ProviderRun, part: str) -> str:
        """The id of the first node whose class has this in its name."""
        nodes = self._graphs[run.id].items()
        return next((name for name, node in nodes if part in str(node.get("class_type")).lower()), "1")

    def _phase(self, run: ProviderRun) -> RunPhase:
        return run.phase(self._runs.engine.now())
