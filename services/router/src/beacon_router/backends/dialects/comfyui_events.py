"""Progress and previews of a run, from ComfyUI's WebSocket. Polls go on if it is not available."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import orjson
from yarl import URL

from beacon_config.workflows import WorkflowConfig
from beacon_contracts.inference import RunProgress
from beacon_lifecycle import Clock
from beacon_router.backends.progress import MAX_PREVIEW_LENGTH, progress_of
from beacon_router.backends.types import BackendCall
from beacon_router.backends.wire import BackendWire

MAX_MESSAGE_BYTES = 4_194_304
PREVIEW_EVERY_S = 1.0
RECONNECT_AFTER_S = 5.0
_PREVIEW = 1
_IMAGE_TYPES = {1: "image/jpeg", 2: "image/png"}
_ENDS = frozenset({"execution_success", "execution_error", "execution_interrupted"})


class ComfyEvents:
    def __init__(
        self,
        url: URL,
        headers: Mapping[str, str],
        workflows: Mapping[str, WorkflowConfig],
        wire: BackendWire,
        clock: Clock,
    ) -> None:
        self._url = url / "ws"
        self._headers = headers
        self._workflows = workflows
        self._wire = wire
        self._clock = clock

    async def watch(
        self,
        call: BackendCall,
        run_id: str,
        progressed: Callable[[RunProgress], None],
        changed: asyncio.Event,
    ) -> None:
        """Until cancelled; `changed` is set when the run has ended."""
        prompt_id, _, client_id = run_id.partition("/")
        graph = self._workflows[call.model].graph
        events = _RunEvents(prompt_id, graph, self._clock, progressed)
        url = self._url.with_query(clientId=client_id or prompt_id)
        while True:
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with self._wire.websocket(url, self._headers, MAX_MESSAGE_BYTES) as socket:
                    async for message in socket:
                        if events.receive(message):
                            changed.set()
            await self._clock.sleep(RECONNECT_AFTER_S)


class _RunEvents:
    """What is known of one run: the node that runs, its progress, the last preview."""

    def __init__(
        self,
        prompt_id: str,
        graph: Mapping[str, Any],
        clock: Clock,
        progressed: Callable[[RunProgress], None],
    ) -> None:
        self._prompt_id = prompt_id
        self._graph = graph
        self._clock = clock
        self._progressed = progressed
        self._node: str | None = None
        self._share: float | None = None
        self._preview: str | None = None
        self._preview_at = float("-inf")

    def receive(self, message: aiohttp.WSMessage) -> bool:
        """True: the run has ended."""
        if message.type is aiohttp.WSMsgType.BINARY:
            self._receive_preview(message.data)
            return False
        try:
            document = orjson.loads(message.data)
            kind, data = str(document["type"]), document["data"]
            # After a reconnection, ComfyUI sends the node that runs without the id of the prompt.
            if data.get("prompt_id", self._prompt_id) != self._prompt_id:
                return False
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
            return False
        node = data.get("node")
        if kind == "executing":
            if node is None:
                return True
            self._node, self._share = str(node), None
            self._report()
        elif kind == "progress":
            value, most = data.get("value"), data.get("max")
            if isinstance(value, int | float) and isinstance(most, int | float) and most > 0:
                self._node, self._share = str(node or self._node), value / most
                self._report()
        return kind in _ENDS

    def _receive_preview(self, data: bytes) -> None:
        """At most one a second; a larger one than the limit is left out."""
        now = self._clock.now()
        kind = _IMAGE_TYPES.get(int.from_bytes(data[4:8], "big"))
        if int.from_bytes(data[:4], "big") != _PREVIEW or kind is None:
            return
        if now - self._preview_at < PREVIEW_EVERY_S or len(data) > MAX_PREVIEW_LENGTH:
            return
        preview = f"data:{kind};base64,{b64encode(data[8:]).decode('ascii')}"
        if len(preview) <= MAX_PREVIEW_LENGTH:
            self._preview, self._preview_at = preview, now
            self._report()

    def _report(self) -> None:
        node = self._graph.get(self._node or "", {})
        title = node.get("_meta", {}).get("title") if isinstance(node.get("_meta"), dict) else None
        message = title or node.get("class_type")
        progress = progress_of(share=self._share, message=message, preview=self._preview)
        if progress is not None:
            self._progressed(progress)
