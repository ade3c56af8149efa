"""The routers, as the worker and the API use them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import InferenceRequest, InferenceView, RemoteRun
from beacon_contracts.problem import Problem
from beacon_contracts.router_status import QueueStatus, SchedulerStatus

OnState = Callable[[InferenceView | None], None]


class RouterError(Exception):
    """The router did not run the request to a terminal state."""


class RouterBusy(RouterError):  # noqa: N818 - a state of the router, not a fault
    """Not accepted now: nothing was started; retry after `retry_after_s`."""

    def __init__(self, retry_after_s: float, reason: str) -> None:
        super().__init__(f"the router does not accept it now: {reason}; retry in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s
        self.reason = reason


class RouterUnreachable(RouterError):  # noqa: N818
    """No router answered within the limit of tries; the request may still be running."""

    def __init__(self, reason: str, *, tries: int) -> None:
        super().__init__(f"no router answered after {tries} tries: {reason}")
        self.reason = reason
        self.tries = tries


class RouterRefused(RouterError):  # noqa: N818
    """The request is invalid for the router; the same request would be refused again."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"the router refused it ({problem.status} {problem.code}): {problem.detail}")
        self.problem = problem

    @property
    def failure(self) -> Failure:
        return Failure(
            code=self.problem.code,
            stage=FailureStage.ADMISSION,
            retryable=False,
            message=self.problem.detail,
        )


@dataclass(frozen=True, slots=True)
class RouterStatus:
    """The queues of one router, or the reason why they are unknown."""

    url: str
    in_flight: int
    queues: QueueStatus | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CancelResult:
    """`views` come from routers that know the request; `unanswered` has a reason per router without answer.

    A router without an answer may still be running the request.
    """

    views: tuple[InferenceView, ...] = ()
    unanswered: tuple[str, ...] = ()

    def run(self, fence: int) -> InferenceView | None:
        """What a backend received under this fence, with any outcome."""
        ran = (view for view in self.views if view.backend is not None and view.fence == fence)
        return next(ran, None)


class InferencePort(Protocol):
    """For the worker: run one inference."""

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,
        on_state: OnState = lambda _: None,
    ) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy` or `RouterUnreachable` when it was not accepted.

        `again`: it may be running at some router already, so existing runs are searched first.
        `on_state` is called without a view when a router has read the request, again if it is sent again;
        with a view when the run has started or reports, or the inference waits again.
        """
        ...


class CancelPort(Protocol):
    async def cancel(
        self,
        request_id: str,
        region: str | None = None,
        *,
        fence: int | None = None,
        remote: RemoteRun | None = None,
    ) -> CancelResult: ...


class RouterPort(CancelPort, Protocol):
    """For the API: find, cancel, status."""

    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None: ...

    async def status(self) -> list[RouterStatus]:
        """The queues of every router; an unavailable one gives its reason."""
        ...

    async def scheduler(self) -> list[SchedulerStatus]:
        """The schedulers of the routers that answer."""
        ...
