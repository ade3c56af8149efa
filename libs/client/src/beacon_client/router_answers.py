"""What an answer of the router means for the caller. Pure: a status and bytes in, a decision out."""

from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from beacon_client.errors import RouterRefused
from beacon_client.transport import Answer
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import InferenceRequest, InferenceState, InferenceView
from beacon_contracts.problem import Problem

DEFAULT_RETRY_AFTER_S = 1.0
TOKEN_REFUSED_RETRY_S = 30.0
TOO_MANY_CONNECTIONS = "too_many_connections"  # as the server says it


@dataclass(frozen=True, slots=True)
class Done:
    view: InferenceView


@dataclass(frozen=True, slots=True)
class Waiting:
    """The router has it; ask again."""

    view: InferenceView


@dataclass(frozen=True, slots=True)
class Lost:
    """The router does not know the request: it was restarted, or kept the result long enough."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Not taken. Where there was no room for the connection, nothing was `heard`: it may have been before."""

    retry_after_s: float
    reason: str
    heard: bool = True


@dataclass(frozen=True, slots=True)
class Broken:
    """Nothing that a working router says: a proxy in between, or a router that fell over."""

    reason: str


Meaning = Done | Waiting | Lost | Busy | Broken


def understand(answer: Answer, request: InferenceRequest) -> Meaning:
    """The meaning of an answer to POST or GET /inference; raises `RouterRefused` for a refusal."""
    if answer.status in (200, 202):
        return _view(answer)
    problem = problem_of(answer)
    match answer.status:
        case 404:
            return Lost()
        case 429 | 503 if problem is not None:
            heard = problem.code != TOO_MANY_CONNECTIONS
            return Busy(retry_after_s(answer.headers, problem), problem.detail, heard)
        case 401 | 403:
            # The operator's mistake, not the job's: it must cost the job nothing.
            detail = problem.detail if problem else f"status {answer.status}"
            reason = f"it does not accept the service token ({detail}); check BEACON_SERVICE_TOKEN"
            return Busy(TOKEN_REFUSED_RETRY_S, reason)
        case 504 if problem is not None:
            return Done(_not_started(request, problem))
        case status if problem is not None and 400 <= status < 500 and status not in (408, 425):
            raise RouterRefused(problem)
        case status:
            return Broken(f"status {status}" + (f": {problem.detail}" if problem else ""))


def problem_of(answer: Answer) -> Problem | None:
    """The problem document of an error answer, if it has one."""
    try:
        return Problem.model_validate_json(answer.body)
    except ValidationError:
        return None


def retry_after_s(headers: httpx.Headers, problem: Problem | None) -> float:
    """Seconds to wait: from the document, else from the Retry-After header."""
    if problem is not None and problem.retry_after_s is not None:
        return max(0.0, problem.retry_after_s)
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else DEFAULT_RETRY_AFTER_S


def _view(answer: Answer) -> Meaning:
    try:
        view = InferenceView.model_validate_json(answer.body)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]["msg"]
        return Broken(f"status {answer.status} with a body that is not an inference: {wrong}")
    return Done(view) if view.state.terminal else Waiting(view)


def _not_started(request: InferenceRequest, problem: Problem) -> InferenceView:
    failure = Failure(
        code=problem.code, stage=FailureStage.QUEUE, retryable=True, message=problem.detail or problem.title
    )
    return InferenceView(
        request_id=request.request_id,
        state=InferenceState.FAILED,
        model=request.model,
        requested_region=request.region,
        fence=request.fence,
        failure=failure,
    )
