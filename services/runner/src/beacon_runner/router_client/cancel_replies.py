"""Combines the replies of several routers to one cancel. Pure."""

from collections.abc import Sequence

from pydantic import ValidationError

from beacon_contracts.inference import InferenceView
from beacon_runner.ports.router import CancelResult
from beacon_runner.router_client.transport import HttpAnswer, RouterExchangeError

_CANCELLED_AT_BACKEND = 204
_UNKNOWN_REQUEST = 404
_LATER_FENCE = 409


def combine_cancel_replies(answers: Sequence[HttpAnswer | RouterExchangeError]) -> CancelResult:
    views: list[InferenceView] = []
    unanswered: list[str] = []
    for answer in answers:
        if isinstance(answer, RouterExchangeError):
            unanswered.append(str(answer))
        elif answer.status == 200:
            try:
                views.append(InferenceView.model_validate_json(answer.body))
            except ValidationError as error:
                unanswered.append(f"the response is not an inference: {error}")
        elif answer.status not in (_UNKNOWN_REQUEST, _LATER_FENCE, _CANCELLED_AT_BACKEND):
            unanswered.append(f"status {answer.status}")
    return CancelResult(tuple(views), tuple(unanswered))
