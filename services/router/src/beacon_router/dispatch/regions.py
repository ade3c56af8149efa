"""One owner per region: every run there is its task, ends with it, and always reports its end."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from beacon_contracts.failures import FailureStage
from beacon_lifecycle import OwnedTasks
from beacon_router.backends import Answer, Backend, BackendCall, BackendError
from beacon_router.backends.openai import OpenAiBackend
from beacon_router.dispatch.inference import Run
from beacon_router.dispatch.streams import StreamSink

log = structlog.get_logger(__name__)


class RegionOwner:
    def __init__(self, name: str, backends: Mapping[str, Backend], ended: Callable[[Run], None]) -> None:
        self.name = name
        self._backends = backends
        self._ended = ended
        self._tasks = OwnedTasks(f"region:{name}")

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, run: Run) -> None:
        """Run it as a task of this region; `ended` is called once, however the task ends."""
        run.task = self._tasks.spawn(run.inference.id, self._perform(run))
        # Not a `finally` inside the task: a task that is cancelled before its first step never enters it.
        run.task.add_done_callback(lambda _: self._ended(run))

    async def drain(self, grace_s: float) -> bool:
        return await self._tasks.drain(grace_s)

    async def close(self) -> None:
        await self._tasks.close()

    async def _perform(self, run: Run) -> None:
        backend = self._backends[run.start.backend]
        call = run.inference.call(run.number)
        try:
            run.answer = await _answer(backend, call, run.inference.ask.sink)
        except BackendError as error:
            run.error = error
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A task begins in the context of whoever woke the scheduler, which may be another request.
            structlog.contextvars.clear_contextvars()
            log.exception("run_crashed", request=call.request_id, backend=run.start.backend)
            run.error = BackendError(
                "internal_error", FailureStage.RUN, False, f"{type(error).__name__}: {error}"[:300]
            )


async def _answer(backend: Backend, call: BackendCall, sink: StreamSink | None) -> Answer:
    if sink is None or not isinstance(backend, OpenAiBackend):
        return await backend.run(call)
    async with backend.stream(call) as pieces:
        async for piece in pieces:
            await sink.write(piece)
    return Answer(output=b"null")
