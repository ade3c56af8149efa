"""ComfyUI: a workflow is a model. Inputs are set by node and field; files go and come over HTTP."""

import copy
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any
from uuid import uuid4

import orjson
from yarl import URL

from beacon_config.topology import FileInput
from beacon_config.workflows import WorkflowConfig
from beacon_contracts.files import InputFile
from beacon_lifecycle import Clock
from beacon_router.backends.answer_reader import AnswerReader
from beacon_router.backends.dialects.comfyui_events import ComfyEvents
from beacon_router.backends.errors import bad_payload, run_unknown, unusable_input
from beacon_router.backends.http_backend import json_object, json_text
from beacon_router.backends.input_files import PlacedCall, plain_form, reference_of
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.output_urls import FileReader
from beacon_router.backends.remote_backend import Phase, RemoteStatus, is_ambiguous
from beacon_router.backends.types import BackendCall, BackendError, BackendResult, WireRequest
from beacon_router.backends.wire import BackendWire

_ENDED = {"success": Phase.COMPLETED, "error": Phase.FAILED}
_SHORTHANDS = frozenset({"duration"})  # fields of an input that need no place in a workflow
_UPLOADS = "beacon"
_PROMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class ComfyApi:
    """A run's id is its `prompt_id`, which is chosen here. An old ComfyUI chooses its own: then a slash and
    the id of the client follow, to which ComfyUI sends the events of the run."""

    repeatable = False
    durable = False

    def __init__(
        self,
        url: URL,
        headers: Mapping[str, str],
        workflows: Mapping[str, WorkflowConfig],
        wire: BackendWire,
        clock: Clock,
    ) -> None:
        self._url = url
        self._headers = headers
        self._workflows = workflows
        self._wire = wire
        self.watch = ComfyEvents(url, headers, workflows, wire, clock).watch

    def new_id(self) -> str:
        return str(uuid4())

    async def submit(self, call: BackendCall, attempt: int, new_id: str | None) -> str:  # noqa: ARG002
        graph = await self._graph(call)
        chosen = new_id or self.new_id()
        body = {"prompt": graph, "client_id": chosen, "prompt_id": chosen}
        try:
            answer = json_object(await self._wire.send(self._post("prompt", body), error_text=_prompt_error))
        except BackendError as error:
            # The answer was lost, but the run has the chosen id.
            if is_ambiguous(error) and await self._is_known(chosen):
                return chosen
            raise
        given = answer.get("prompt_id")
        if not isinstance(given, str) or not _PROMPT_ID.fullmatch(given):
            raise bad_payload("the answer to the submission has no usable prompt_id")
        return given if given == chosen else f"{given}/{chosen}"

    async def status(self, run_id: str) -> RemoteStatus:
        prompt_id = run_id.partition("/")[0]
        entry = await self._history(prompt_id)
        if entry is None:
            queue = json_object(await self._wire.send(self._get("queue")))
            for name, phase in (("queue_running", Phase.RUNNING), ("queue_pending", Phase.WAITING)):
                if any(_is_prompt(item, prompt_id) for item in _list(queue.get(name))):
                    return RemoteStatus(phase)
            entry = await self._history(prompt_id)  # it may have ended in between
            if entry is None:
                return RemoteStatus(Phase.UNKNOWN)
        return _ended(entry)

    async def result(self, call: BackendCall, run_id: str, outputs: OutputFiles) -> BackendResult:
        entry = await self._history(run_id.partition("/")[0])
        if entry is None:  # ComfyUI was restarted, or has dropped it
            raise run_unknown()
        nodes = _dict(entry.get("outputs"))
        wanted = self._workflow(call).outputs or list(nodes)
        found = [item for node in wanted for item in _items(_dict(nodes.get(node)))]
        saved = any(_is_file(value, "output") for _, value in found)
        output: dict[str, list[Any]] = {}
        for kind, value in found:
            if not _is_file(value):
                output.setdefault(kind, []).append(value)
            elif _is_file(value, "output") or not saved:  # previews only if nothing is saved
                output.setdefault(kind, []).append(await self._file(value, outputs))
        return await self._wire.with_files(BackendResult(json_text(output)), outputs)

    async def cancel(self, run_id: str) -> None:
        """Only a running prompt is interrupted: an old ComfyUI interrupts whatever is running."""
        prompt_id = run_id.partition("/")[0]
        await self._wire.send(self._post("queue", {"delete": [prompt_id]}))
        queue = json_object(await self._wire.send(self._get("queue")))
        if any(_is_prompt(item, prompt_id) for item in _list(queue.get("queue_running"))):
            await self._wire.send(self._post("interrupt", {"prompt_id": prompt_id}))

    async def _is_known(self, run_id: str) -> bool:
        """False too if it cannot be found out."""
        try:
            return (await self.status(run_id)).phase is not Phase.UNKNOWN
        except BackendError:
            return False

    async def _graph(self, call: BackendCall) -> dict[str, Any]:
        """The workflow with the values of the input; what is not given stays as it is in the file."""
        workflow = self._workflow(call)
        given: dict[str, Any] = orjson.loads(call.input)
        if unknown := given.keys() - workflow.inputs.keys() - _SHORTHANDS:
            known = ", ".join(workflow.inputs) or "none"
            raise unusable_input(f"the workflow has no input {min(unknown)!r}; its inputs are: {known}")
        files = {file.id: file for file in call.files}
        graph = copy.deepcopy(workflow.graph)
        for name, value in (orjson.loads(call.params) | given).items():
            if name in workflow.inputs:
                node, _, field = workflow.inputs[name].partition(".")
                reference = reference_of(value)
                placed = value if reference is None else await self._upload(files[reference], call)
                graph[node]["inputs"][field] = placed
        return graph

    async def _upload(self, file: InputFile, call: BackendCall) -> str:
        """The name of the file at ComfyUI; its id is in it, so that no file replaces another one."""
        suffix = file.name[file.name.rfind(".") :] if "." in file.name[-6:] else ""
        named = file.model_copy(update={"name": f"{file.id}{suffix}"})
        fields = {"image": {"file": file.id}, "subfolder": _UPLOADS, "type": "input", "overwrite": "true"}
        part = PlacedCall(call.id, call.model, orjson.dumps(fields), b"{}", b"{}", None, (named,))
        inputs = self._wire.inputs(plain_form, FileInput.MULTIPART)
        body = (await inputs.place(part)).input
        request = WireRequest("POST", self._url / "upload" / "image", self._headers, body)
        answer = json_object(await self._wire.send(inputs.attach(request), inputs=inputs))
        if not isinstance(answer.get("name"), str):
            raise bad_payload("the answer to the upload has no name")
        folder = answer.get("subfolder")
        return f"{folder}/{answer['name']}" if folder else str(answer["name"])

    async def _history(self, prompt_id: str) -> dict[str, Any] | None:
        outputs = self._wire.outputs()
        reader = AnswerReader(outputs, self._wire.max_response_bytes, unchanged=True)
        try:
            response = await self._wire.send(self._get("history", prompt_id), reader)
        finally:
            await outputs.discard()
        if response.file is not None:
            raise bad_payload(f"the history is not JSON, but a file ({response.file['content_type']})")
        entry = json_object(response).get(prompt_id)
        return entry if isinstance(entry, dict) else None

    async def _file(self, place: Mapping[str, str], outputs: OutputFiles) -> dict[str, Any]:
        query = {name: str(place.get(name, "")) for name in ("filename", "subfolder", "type")}
        url = (self._url / "view").with_query(query)
        reader = FileReader(outputs, query["filename"])
        response = await self._wire.send(WireRequest("GET", url, self._headers), reader)
        return dict(response.file or {})

    def _workflow(self, call: BackendCall) -> WorkflowConfig:
        return self._workflows[call.model]

    def _get(self, *path: str) -> WireRequest:
        return WireRequest("GET", self._url.joinpath(*path), self._headers)

    def _post(self, path: str, body: Mapping[str, Any]) -> WireRequest:
        headers = {**self._headers, "content-type": "application/json"}
        return WireRequest("POST", self._url / path, headers, orjson.dumps(body))


def _prompt_error(body: bytes) -> str:
    """Why ComfyUI refuses a workflow: `KSampler (3): Value 0 smaller than min of 1: steps`, for each node."""
    try:
        document = _dict(orjson.loads(body))
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")
    causes = [
        f"{found.get('class_type', 'node')} ({node}): {error.get('message')}: {error.get('details')}"
        for node, found in _dict(document.get("node_errors")).items()
        for error in map(_dict, _list(_dict(found).get("errors")))
    ]
    return "; ".join(causes) or str(_dict(document.get("error")).get("message") or document.get("error"))


def _ended(entry: Mapping[str, Any]) -> RemoteStatus:
    status = _dict(entry.get("status"))
    messages = (item for item in _list(status.get("messages")) if isinstance(item, list) and len(item) > 1)
    events = {str(item[0]): item[1] for item in messages}
    if "execution_interrupted" in events:
        return RemoteStatus(Phase.CANCELLED)
    failure = _dict(events.get("execution_error"))
    text = ": ".join(str(failure[name]) for name in ("node_type", "exception_message") if failure.get(name))
    return RemoteStatus(_ENDED.get(str(status.get("status_str")), Phase.COMPLETED), error=text.strip())


def _items(node: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What a node has put out: lists of files (`images`, `gifs`, `audio`) or of texts by their kind."""
    lists = ([(kind, value) for value in _list(values)] for kind, values in node.items())
    return [item for item in chain.from_iterable(lists) if isinstance(item[1], dict | str | int | float)]


def _is_file(value: object, kind: str | None = None) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("filename"), str):
        return False
    return kind in (None, value.get("type"))


def _is_prompt(item: object, prompt_id: str) -> bool:
    return isinstance(item, list) and len(item) > 1 and item[1] == prompt_id


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
