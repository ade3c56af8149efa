"""Classifies a router's answer to one request of a batch. Pure: status and document in, a reply out."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import orjson
from pydantic import ValidationError

from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.inference import BatchAnswer, InferenceRequest, InferenceState, InferenceView
from beacon_contracts.problem import Problem
from beacon_runner.ports.router import RouterRefused
from beacon_runner.router_client.transport import HttpAnswer

DEFAULT_RETRY_AFTER_S = 1.0
TOKEN_REFUSED_RETRY_S = 30.0
TOO_MANY_CONNECTIONS = "too_many_connections"  # the problem code of the HTTP server


@dataclass(frozen=True, slots=True)
class UnknownReply:
    """The router does not know the request: it restarted, or the result expired."""


@dataclass(frozen=True, slots=True)
class BusyReply:
    """Not accepted now.

    `was_read` is false when the connection was refused before the request was read: then an earlier copy of
    the request may still be running there.
    """

    retry_after_s: float
    reason: str
    was_read: bool = True


@dataclass(frozen=True, slots=True)
class NoReply:
    """No response of a working router: none, or that of a proxy in between or of a router that crashed.

    `sent`: the router may have received the request.
    """

    reason: str
    sent: bool


RouterReply = InferenceView | UnknownReply | BusyReply | NoReply
"""A view: the router holds the request (poll again), or with a terminal state, it has ended."""


def parse_reply(answer: BatchAnswer, request: InferenceRequest) -> RouterReply:
    """The reply; raises `RouterRefused` when the router rejects the request for good."""
    if answer.status in (200, 202):
        return view_of(answer)
    problem = problem_of(answer)
    match answer.status:
        case 404:
            return UnknownReply()
        case 429 | 503 if problem is not None:
            was_read = problem.code != TOO_MANY_CONNECTIONS
            return BusyReply(_retry_after_s(answer, problem), problem.detail, was_read)
        case 401 | 403:
            # A wrong service token is a configuration error, so the job must not fail because of it.
            detail = problem.detail if problem else f"status {answer.status}"
            reason = f"it does not accept the service token ({detail}); check BEACON_SERVICE_TOKEN"
            return BusyReply(TOKEN_REFUSED_RETRY_S, reason)
        case 504 if problem is not None:
            return _not_started(request, problem)
        case status if problem is not None and 400 <= status < 500 and status not in (408, 425):
            raise RouterRefused(problem)
        case status:
            return NoReply(f"status {status}" + (f": {problem.detail}" if problem else ""), sent=True)


def problem_of(answer: BatchAnswer) -> Problem | None:
    """The problem document of an error response, if it has one."""
    try:
        return Problem.model_validate(answer.document)
    except ValidationError:
        return None


def answer_to_all(refusal: HttpAnswer) -> BatchAnswer:
    """A response without lines, as the answer to every entry of the batch."""
    document: object = None
    with suppress(orjson.JSONDecodeError):
        document = orjson.loads(refusal.body)
    return BatchAnswer(
        request_id=None,
        status=refusal.status,
        document=document if isinstance(document, dict) else {},
        retry_after_s=_header_retry_after_s(refusal.headers),
    )


def _retry_after_s(answer: BatchAnswer, problem: Problem) -> float:
    """Seconds to wait: from the document, else from the header."""
    if problem.retry_after_s is not None:
        return max(0.0, problem.retry_after_s)
    return DEFAULT_RETRY_AFTER_S if answer.retry_after_s is None else max(0.0, answer.retry_after_s)


def _header_retry_after_s(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def view_of(answer: BatchAnswer) -> InferenceView | NoReply:
    """The inference as the router describes it."""
    try:
        return InferenceView.model_validate(answer.document)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]["msg"]
        return NoReply(f"status {answer.status} with a body that is not an inference: {wrong}", sent=True)


def _not_started(request: InferenceRequest, problem: Problem) -> InferenceView:
    failure = Failure(
        code=problem.code, stage=FailureStage.QUEUE, retryable=True, message=problem.detail or problem.title
    )
    return InferenceView(
        request_id=request.request_id,
        state=InferenceState.FAILED,
        model=request.model,
        requested_region=request.region or "",
        fence=request.fence,
        failure=failure,
    )
