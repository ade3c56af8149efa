"""The combined replies of several routers to one cancel."""

import httpx

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_runner.router_client.cancel_replies import combine_cancel_replies
from beacon_runner.router_client.transport import HttpAnswer, RouterExchangeError


def view(*, fence: int, backend: str | None) -> HttpAnswer:
    seen = InferenceView(
        request_id="r",
        state=InferenceState.CANCELLED,
        model="m",
        requested_region="US",
        backend=backend,
        fence=fence,
    )
    return answer(200, seen.model_dump_json().encode())


def answer(status: int, body: bytes = b"{}") -> HttpAnswer:
    return HttpAnswer(status, httpx.Headers(), body)


def test_a_run_at_one_router_counts() -> None:
    said = combine_cancel_replies([answer(404), view(fence=7, backend=None), view(fence=7, backend="us-1")])
    assert said.unanswered == ()
    assert said.run(7) is not None


def test_a_waiting_request_did_not_run() -> None:
    assert combine_cancel_replies([view(fence=7, backend=None)]).run(7) is None


def test_a_run_of_an_earlier_fence_does_not_count() -> None:
    assert combine_cancel_replies([view(fence=6, backend="us-1")]).run(7) is None


def test_a_router_without_a_valid_reply_is_unanswered() -> None:
    lost = RouterExchangeError("the connection was lost", sent=True)
    said = combine_cancel_replies([lost, answer(503), answer(200, b"<html>"), answer(404), answer(409)])
    assert len(said.unanswered) == 3


def test_a_run_that_was_cancelled_at_its_backend_is_answered() -> None:
    said = combine_cancel_replies([answer(204), answer(404)])
    assert (said.views, said.unanswered) == ((), ())
