"""What the routers say of a request that was cancelled. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from beacon_client.transport import Answer, ExchangeError
from beacon_contracts.inference import InferenceView

_FORGOTTEN = 404
_TAKEN_OVER = 409


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """`views` are of the routers that know the request, `silent` says why others may still be running it."""

    views: tuple[InferenceView, ...] = ()
    silent: tuple[str, ...] = ()

    def ran(self, fence: int) -> bool:
        """Whether a backend was given it under this lease or a later one, whatever came of it."""
        return any(view.backend is not None and view.fence >= fence for view in self.views)


def withdrawal_of(answers: Sequence[Answer | ExchangeError]) -> Withdrawal:
    views: list[InferenceView] = []
    silent: list[str] = []
    for answer in answers:
        if isinstance(answer, ExchangeError):
            silent.append(str(answer))
        elif answer.status == 200:
            try:
                views.append(InferenceView.model_validate_json(answer.body))
            except ValidationError as error:
                silent.append(f"its answer is not an inference: {error}")
        elif answer.status not in (_FORGOTTEN, _TAKEN_OVER):
            silent.append(f"status {answer.status}")
    return Withdrawal(tuple(views), tuple(silent))
