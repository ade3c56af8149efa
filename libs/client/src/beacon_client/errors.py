"""What can go wrong between a caller and Beacon, as exceptions that carry the reason."""

from beacon_client.advice import advice_for
from beacon_contracts.problem import Problem


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
