"""Providers with a submit-and-poll API, by a mapping: Replicate, RunPod, fal and others."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import jmespath
import orjson
from yarl import URL

from beacon_config.mappings import PollingMapping
from beacon_contracts.files import InputFile
from beacon_router.backends.answer_reader import AnswerReader
from beacon_router.backends.errors import bad_payload, parse_retry_after
from beacon_router.backends.expressions import body_of, compiled, found, path_of
from beacon_router.backends.http_backend import json_text
from beacon_router.backends.input_files import FileForms, plain_form
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.progress import ProgressExpressions
from beacon_router.backends.remote_backend import Phase, RemoteStatus
from beacon_router.backends.types import BackendCall, BackendError, BackendResult, WireRequest, WireResponse
from beacon_router.backends.wire import BackendWire

_ACCEPTED = 202
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:=/-]{0,399}")


class PollingApi:
    watch = None
    durable = True

    def __init__(
        self,
        url: URL,
        headers: Mapping[str, str],
        mapping: PollingMapping,
        wire: BackendWire,
        *,
        model_names: Mapping[str, str] = MappingProxyType({}),
        read_result: Callable[[WireResponse], BackendResult] | None = None,
    ) -> None:
        """`read_result`: reads the result of a run in place of the mapping's `output`."""
        self._url = url
        self._headers = headers
        self._mapping = mapping
        self._wire = wire
        self._model_names = model_names
        self._read_result = read_result or self._mapped_result
        self._request = None if mapping.request is None else compiled(mapping.request)
        self._id = jmespath.compile(mapping.id)
        self._state = jmespath.compile(mapping.state)
        self._error = jmespath.compile(mapping.error)
        self._output = None if mapping.output is None else jmespath.compile(mapping.output)
        self._progress = ProgressExpressions(mapping)
        self._phases = {
            word: phase
            for phase, words in (
                (Phase.WAITING, mapping.queued),
                (Phase.RUNNING, mapping.running),
                (Phase.COMPLETED, mapping.completed),
                (Phase.FAILED, mapping.failed),
                (Phase.TIMED_OUT, mapping.timed_out),
                (Phase.CANCELLED, mapping.cancelled),
            )
            for word in words
        }
        self.repeatable = mapping.idempotency_header is not None

    def new_id(self) -> None:
        return None

    async def submit(self, call: BackendCall, attempt: int, new_id: str | None) -> str:  # noqa: ARG002
        inputs = self._wire.inputs(_data_url_form if self._mapping.data_urls else plain_form)
        if call.files:
            call = await inputs.place(call)
        model = self._model_names.get(call.model, call.model)
        headers = {**self._headers, "content-type": "application/json"}
        if self._mapping.idempotency_header is not None:
            # An execution that is retried later has the same id, but a new attempt of its own.
            attempts = (1 if call.meta is None else call.meta.attempt, attempt)
            headers[self._mapping.idempotency_header] = str(uuid5(NAMESPACE_URL, f"{call.id}#{attempts}"))
        url = self._url
        if self._mapping.submit_path is not None:
            url = path_of(url, self._mapping.submit_path, call, model, safe="/:")
        body = orjson.dumps(body_of(self._request, call, model))
        answer = await self._wire.send(inputs.attach(WireRequest("POST", url, headers, body)), inputs=inputs)
        return self._run_id(_document(answer))

    async def status(self, run_id: str) -> RemoteStatus:
        # Files of an unfinished run, such as previews, are not kept.
        outputs = self._wire.outputs()
        reader = AnswerReader(outputs, self._wire.max_response_bytes, unchanged=False)
        try:
            response = await self._wire.send(self._get(self._mapping.status_path, run_id), reader)
        except BackendError as error:
            if error.status in (404, 410):
                return RemoteStatus(Phase.UNKNOWN)
            raise
        finally:
            await outputs.discard()
        document = _document(response)
        phase = self._phase(response.status, found(self._state, document))
        retry_after_s = parse_retry_after(response.headers.get("retry-after"), self._wire.wall())
        failed = phase is Phase.FAILED
        if failed or (phase is Phase.COMPLETED and self._mapping.result_path is not None):
            error_text = _error_text(found(self._error, document))
            if failed or error_text:
                return RemoteStatus(Phase.FAILED, error=error_text)
        progress = self._progress.of(document) if phase is Phase.RUNNING else None
        return RemoteStatus(phase, progress, retry_after_s=retry_after_s)

    async def result(self, call: BackendCall, run_id: str, outputs: OutputFiles) -> BackendResult:  # noqa: ARG002
        path = self._mapping.result_path or self._mapping.status_path
        reader = AnswerReader(outputs, self._wire.max_response_bytes, unchanged=False)
        response = await self._wire.send(self._get(path, run_id), reader)
        return await self._wire.with_files(self._read_result(response), outputs)

    async def cancel(self, run_id: str) -> None:
        if self._mapping.cancel_path is not None:
            url = self._address(self._mapping.cancel_path, run_id)
            await self._wire.send(WireRequest(self._mapping.cancel_method, url, self._headers))

    def _mapped_result(self, response: WireResponse) -> BackendResult:
        if response.file is not None:
            return BackendResult(orjson.dumps(response.file))
        document = _document(response)
        return BackendResult(json_text(document if self._output is None else found(self._output, document)))

    def _run_id(self, document: Any) -> str:
        """Of an address, its path below the url: the host is always the configured one."""
        value = found(self._id, document)
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if text.startswith(("https://", "http://")):
            text = (
                text.partition("?")[0].split("/", 3)[-1].removeprefix(self._url.path.lstrip("/")).lstrip("/")
            )
        if not _RUN_ID.fullmatch(text) or ".." in text:
            raise bad_payload(f"the answer to the submission has no usable id at {self._mapping.id!r}")
        return text

    def _get(self, path: str, run_id: str) -> WireRequest:
        return WireRequest("GET", self._address(path, run_id), self._headers)

    def _address(self, path: str, run_id: str) -> URL:
        if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
            raise bad_payload("the id of the run is not one of this backend")
        return URL(str(self._url).rstrip("/") + path.replace("{id}", run_id), encoded=True)

    def _phase(self, status: int, word: object) -> Phase:
        if not isinstance(word, str):
            if not word and status == _ACCEPTED:
                return Phase.RUNNING
            raise bad_payload(f"the state of the run has no word at {self._mapping.state!r}")
        phase = self._phases.get(word)
        if phase is None:
            raise bad_payload(f"the state {word[:100]!r} of the run is not in the configuration")
        return phase


def _document(response: WireResponse) -> Any:
    if response.file is not None:
        raise bad_payload(f"the response is not JSON, but a file ({response.file['content_type']})")
    try:
        return orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        kind, size = response.headers.get("content-type", "no type"), len(response.body)
        raise bad_payload(f"the response is not JSON ({kind}, {size} bytes): {error}") from error


def _error_text(value: object) -> str:
    """Workers of RunPod report an exception as a text that is an object with its message and traceback."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(orjson.JSONDecodeError):
            value = orjson.loads(value)
    if isinstance(value, dict):
        value = value.get("error_message") or value.get("message") or value
    return value if isinstance(value, str) else "" if value is None else json_text(value).decode()


def _data_url_form(key: str | None, file: InputFile, forms: FileForms) -> str:  # noqa: ARG001
    return forms.data_url
