"""The OpenAI-compatible API on the same queues and limits, with streaming."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.types import Receive, Scope

from beacon_contracts.tiers import Tier
from beacon_http.replies import Headers, Reply
from beacon_lifecycle import Clock, TaskSet
from beacon_router.http.auth import ServiceAuth, presented_key
from beacon_router.http.bodies import BodyReader
from beacon_router.http.callers import Caller, CallerCache, RunnerUnavailableError
from beacon_router.http.chat_answers import chunks, completion, event, model_document, model_list
from beacon_router.http.chat_errors import ChatError, chat_failure, failure_status
from beacon_router.http.chat_parser import ChatParser
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.inference import Inference
from beacon_router.service.streams import StreamSink

_SERVICE = Caller("service", Tier.FREE)


class Streamed:
    """A streamed response whose first piece has arrived."""

    def __init__(self, pieces: AsyncIterator[bytes], headers: Headers) -> None:
        self.pieces = pieces
        self.headers = headers


class ChatHandler:
    """`keys` None: only the service token is accepted."""

    def __init__(
        self,
        dispatch: DispatchService,
        parser: ChatParser,
        auth: ServiceAuth,
        keys: CallerCache | None,
        bodies: BodyReader,
        *,
        clock: Clock,
    ) -> None:
        self._dispatch = dispatch
        self._parser = parser
        self._auth = auth
        self._keys = keys
        self._clock = clock
        self._bodies = bodies
        self._watchers = TaskSet("chat")

    async def close(self) -> None:
        await self._watchers.close()

    async def models(self, scope: Scope) -> Reply:
        await self._caller(scope)
        return Reply(200, model_list(self._parser.models, self._now()))

    async def model(self, scope: Scope, name: str) -> Reply:
        await self._caller(scope)
        return Reply(200, model_document(self._parser.known(name), self._now()))

    async def complete(self, request: Request) -> Reply | Streamed:
        caller = await self._caller(request.scope)
        body = await self._bodies.read(request)
        spec = self._parser.parse(request.scope, body, caller)
        inference = self._dispatch.submit(spec)
        if spec.sink is not None:
            return await self._stream(inference, spec.sink, request.receive)
        with self._cancelled_on_disconnect(inference, request.receive):
            await self._dispatch.waiter(inference, None)
        return self._answer(inference)

    def _answer(self, inference: Inference) -> Reply:
        if inference.failure is not None:
            return chat_failure(inference.failure)
        return Reply(200, completion(inference, self._now()), _location_headers(inference))

    async def _stream(self, inference: Inference, sink: StreamSink, receive: Receive) -> Reply | Streamed:
        """Until the first piece arrives the response can still be an error status."""
        pieces = self._pieces(inference, sink, receive)
        first = await anext(pieces, None)
        if first is None:
            return self._answer(inference)
        return Streamed(_chained(first, pieces), _location_headers(inference))

    async def _pieces(self, inference: Inference, sink: StreamSink, receive: Receive) -> AsyncIterator[bytes]:
        """The backend's stream; one chunk from a backend that does not stream."""
        with self._cancelled_on_disconnect(inference, receive):
            while (piece := await sink.read()) is not None:
                yield piece
            failure = inference.failure
            if failure is None and not sink.begun:
                for chunk in chunks(inference, self._now()):
                    yield chunk
            elif failure is not None and sink.begun:
                status = failure_status(failure)
                yield event({"error": {"message": failure.message, "code": failure.code, "status": status}})

    @contextmanager
    def _cancelled_on_disconnect(self, inference: Inference, receive: Receive) -> Iterator[None]:
        """Inside, a disconnect of the client cancels its inference; so does leaving before it has ended."""
        watcher = self._watchers.spawn(inference.id, self._watch(inference, receive))
        try:
            yield
        finally:
            watcher.cancel()
            if not inference.done:
                self._dispatch.cancel(inference.id)

    async def _watch(self, inference: Inference, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not inference.done:
            self._dispatch.cancel(inference.id)

    async def _caller(self, scope: Scope) -> Caller:
        key = presented_key(scope)
        if key is None:
            raise ChatError(401, "missing_api_key", "send your key as Authorization: Bearer")
        if self._auth.is_service(key):
            return _SERVICE
        try:
            caller = None if self._keys is None else await self._keys.caller_of(key)
        except RunnerUnavailableError as error:
            raise ChatError(503, "keys_not_checked", f"your key cannot be checked now: {error}") from error
        if caller is None:
            raise ChatError(401, "invalid_api_key", "this key is not known")
        return caller

    def _now(self) -> int:
        return int(self._clock.wall().timestamp())


def _location_headers(inference: Inference) -> Headers:
    region, backend = inference.actual_region, inference.backend
    if region is None or backend is None:
        return ()
    return ((b"x-beacon-region", region.encode()), (b"x-beacon-backend", backend.encode()))


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
