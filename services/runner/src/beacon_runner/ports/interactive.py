"""The routers, as interactive requests use them."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from beacon_contracts.inference import InferenceView
from beacon_runner.domain.inputs.encoded_request import EncodedRequest
from beacon_runner.ports.router import RouterError

InteractiveEvent = InferenceView | bytes
"""A state while it waits, a part of the backend's own response, or the terminal state, which is the last."""


OnEvent = Callable[[InteractiveEvent], Awaitable[None]]


class ResponseLost(RouterError):  # noqa: N818 - a state of the router, not a fault
    """The router was lost after it had sent a part of the response."""


class InteractivePort(Protocol):
    async def stream(self, request: EncodedRequest, on_event: OnEvent) -> None:
        """Run it to a terminal state, with `on_event` for each event; cancelling the call cancels the run.

        Raises `RouterBusy`, `RouterUnreachable`, `RouterRefused` or `ResponseLost` instead.
        """
        ...
