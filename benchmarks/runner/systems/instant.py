"""A router that answers at once, so that only the runner's cost is measured."""

import asyncio
from collections.abc import Callable

from beacon_contracts.inference import InferenceRequest, InferenceState, InferenceView
from beacon_runner.ports.router import OnState

OUTPUT = {"text": "done"}


class InstantRouter:
    """The port `InferencePort` without network and GPU; `body` is called with each prompt."""

    def __init__(self, body: Callable[[str], None]) -> None:
        self._body = body

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,  # noqa: ARG002
        on_state: OnState = lambda _: None,  # noqa: ARG002
    ) -> InferenceView:
        self._body(request.input["prompt"])
        return InferenceView(
            request_id=request.request_id,
            state=InferenceState.COMPLETED,
            model=request.model,
            requested_region=request.region,
            actual_region=request.region,
            backend="instant",
            fence=request.fence,
            output=OUTPUT,
        )

    async def cancel(self, request_id: str, region: str) -> None:
        """No run is long enough to be cancelled."""


class HangingRouter:
    """The port `InferencePort` with executions that never end, so that a worker can be killed during one."""

    def __init__(self, body: Callable[[str], None]) -> None:
        self._body = body

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,  # noqa: ARG002
        on_state: OnState = lambda _: None,  # noqa: ARG002
    ) -> InferenceView:
        self._body(request.input["prompt"])
        await asyncio.Event().wait()
        raise AssertionError("an event that is never set was set")

    async def cancel(self, request_id: str, region: str) -> None:
        """Nothing to do: the task ends with its worker."""
