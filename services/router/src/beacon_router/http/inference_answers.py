"""What the routes of `/inference` answer about an inference, alone or in a batch."""

from urllib.parse import quote

from beacon_http.problems import make_problem
from beacon_http.replies import Reply, problem_reply
from beacon_router.http.presenter import InferencePresenter
from beacon_router.service.failures import ROUTER_STOPPING, START_BY_PASSED
from beacon_router.service.inference import Inference

# Failures before any run: the client may retry, here or at another router.
_STATUS_OF_FAILURE = {START_BY_PASSED: 504, ROUTER_STOPPING: 503}
RETRY_AFTER_S = 1.0


class InferenceAnswers:
    def __init__(self, presenter: InferencePresenter) -> None:
        self._presenter = presenter

    def of(self, inference: Inference) -> Reply:
        """200 with the result, 202 while there is none, 503 or 504 when it was given up before any run."""
        failure = inference.failure
        if failure is not None and failure.code in _STATUS_OF_FAILURE:
            status = _STATUS_OF_FAILURE[failure.code]
            return problem_reply(
                make_problem(status, failure.code, failure.message, retry_after_s=RETRY_AFTER_S)
            )
        if inference.done:
            return Reply(200, self.render(inference))
        location = f"/inference/{quote(inference.id, safe='')}"
        return Reply(202, self.render(inference), ((b"location", location.encode()),))

    def render(self, inference: Inference, *, response: bool = True) -> bytes:
        """`response` false: without the backend's complete response."""
        return self._presenter.render(inference, response=response)
