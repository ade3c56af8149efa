"""The meaning of each reply of the router."""

from typing import Any

import httpx
import orjson
import pytest

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import BatchAnswer, InferenceRequest, InferenceState, InferenceView
from beacon_runner.ports.router import RouterRefused
from beacon_runner.router_client.replies import BusyReply, NoReply, UnknownReply, answer_to_all, parse_reply
from beacon_runner.router_client.transport import HttpAnswer

REQUEST = InferenceRequest(
    request_id="exe_1.0.0", model="flux", region="US", input={"prompt": "cat"}, fence=7
)


def answer(status: int, body: object = None, **headers: str) -> BatchAnswer:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    named = httpx.Headers({k.replace("_", "-"): v for k, v in headers.items()})
    return answer_to_all(HttpAnswer(status, named, content))


def view(state: str) -> dict[str, Any]:
    return {"request_id": "exe_1.0.0", "state": state, "model": "flux", "requested_region": "US", "fence": 7}


def problem(status: int, code: str = "x", **more: Any) -> dict[str, Any]:
    return {"title": "T", "status": status, "code": code, "detail": "the reason", **more}


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_a_terminal_view_ends_the_call(state: str) -> None:
    reply = parse_reply(answer(200, view(state)), REQUEST)
    assert isinstance(reply, InferenceView)
    assert (reply.state, reply.state.terminal) == (state, True)


@pytest.mark.parametrize("state", ["queued", "warming", "running", "backoff"])
def test_any_other_view_is_polled(state: str) -> None:
    reply = parse_reply(answer(202, view(state)), REQUEST)
    assert isinstance(reply, InferenceView)
    assert not reply.state.terminal


def test_an_unknown_request_is_lost() -> None:
    assert parse_reply(answer(404, problem(404)), REQUEST) == UnknownReply()
    assert parse_reply(answer(404, b"<html>"), REQUEST) == UnknownReply()


@pytest.mark.parametrize("status", [429, 503])
def test_not_accepted_is_busy_for_as_long_as_the_document_says(status: int) -> None:
    busy = parse_reply(answer(status, problem(status, retry_after_s=2.5), retry_after="3"), REQUEST)
    assert busy == BusyReply(2.5, "the reason")


@pytest.mark.parametrize(("header", "expected"), [("12", 12.0), ("", 1.0), ("-3", 1.0), ("soon", 1.0)])
def test_not_accepted_is_busy_for_as_long_as_the_header_says(header: str, expected: float) -> None:
    assert parse_reply(answer(429, problem(429), retry_after=header), REQUEST) == BusyReply(
        expected, "the reason"
    )


def test_a_refused_connection_has_not_read_the_request() -> None:
    refused = answer(503, problem(503, "too_many_connections", retry_after_s=1))
    assert parse_reply(refused, REQUEST) == BusyReply(1.0, "the reason", was_read=False)


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_service_token_is_no_failure_of_the_job(status: int) -> None:
    busy = parse_reply(answer(status, problem(status)), REQUEST)
    assert isinstance(busy, BusyReply)
    assert "BEACON_SERVICE_TOKEN" in busy.reason


def test_start_by_passed_is_a_retryable_failure_in_the_queue() -> None:
    done = parse_reply(answer(504, problem(504, code="start_by_passed")), REQUEST)
    assert isinstance(done, InferenceView)
    assert done.state is InferenceState.FAILED
    assert done.fence == 7
    assert done.failure is not None
    assert (done.failure.code, done.failure.stage) == ("start_by_passed", FailureStage.QUEUE)
    assert done.failure.retryable


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refusal_carries_the_problem_and_a_failure_that_is_not_retried(status: int) -> None:
    with pytest.raises(RouterRefused) as refused:
        parse_reply(answer(status, problem(status, code="unknown_model")), REQUEST)
    assert refused.value.problem.status == status
    failure = refused.value.failure
    assert (failure.code, failure.stage, failure.retryable) == (
        "unknown_model",
        FailureStage.ADMISSION,
        False,
    )
    assert failure.message == "the reason"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>welcome</html>"),
        (200, {"state": "completed"}),
        (301, b""),
        (400, b"Bad Request (from a proxy)"),
        (429, b"slow down, says the proxy"),
        (500, problem(500)),
        (502, b"Bad Gateway"),
        (503, b"proxy has no upstream"),
        (504, b"Gateway Timeout"),
        (408, problem(408)),
    ],
)
def test_an_invalid_reply_is_no_failure_of_the_job(status: int, body: object) -> None:
    reply = parse_reply(answer(status, body), REQUEST)
    assert isinstance(reply, NoReply)
    assert reply.sent
    assert str(status) in reply.reason
