"""What can go wrong between a caller and Beacon, as exceptions that carry the reason."""

from beacon_client.advice import advice_for
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.problem import Problem


class RouterError(Exception):
    """The router did not bring the request to an end."""


class RouterBusy(RouterError):  # noqa: N818 - a state of the router, not a mistake
    """Not taken now: nothing was started, and trying again after `retry_after_s` is right."""

    def __init__(self, retry_after_s: float, reason: str) -> None:
        super().__init__(f"the router cannot take it now: {reason}; try again in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s
        self.reason = reason


class RouterUnreachable(RouterError):  # noqa: N818
    """No router answered within the bounded number of tries; the request may still be running."""

    def __init__(self, reason: str, *, tries: int) -> None:
        super().__init__(f"no router answered after {tries} tries: {reason}")
        self.reason = reason
        self.tries = tries


class RouterRefused(RouterError):  # noqa: N818
    """The router understood the request and will not run it: the same request would be refused again."""

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


class BeaconError(Exception):
    """The runner said no, or did not answer. `code` is stable; `what_to_do` is for people."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail or problem.title} ({problem.code})")
        self.problem = problem

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def code(self) -> str:
        return self.problem.code

    @property
    def detail(self) -> str:
        return self.problem.detail

    @property
    def retry_after_s(self) -> float | None:
        return self.problem.retry_after_s

    @property
    def what_to_do(self) -> str:
        return advice_for(self.problem)


class BeaconUnreachable(BeaconError):  # noqa: N818
    """No answer came. `sent` is false when the request cannot have arrived."""

    def __init__(self, url: str, reason: str, *, sent: bool) -> None:
        super().__init__(
            Problem(
                title="Unreachable", status=0, code="unreachable", detail=f"{url} does not answer: {reason}"
            )
        )
        self.sent = sent
