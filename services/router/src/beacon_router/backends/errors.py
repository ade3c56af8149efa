"""Which failures are worth another try, and which are the backend's own: the table, and nothing else."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from beacon_contracts.failures import FailureStage
from beacon_router.backends.types import BackendError

RETRYABLE_STATUS = frozenset({408, 425, 429, 502, 503, 504})

_CODES = {
    408: "backend_timeout",
    425: "backend_too_early",
    429: "backend_busy",
    502: "backend_unavailable",
    503: "backend_unavailable",
    504: "backend_timeout",
}
_TEXT_LENGTH = 300
_LONGEST_WAIT_S = 86_400.0


def status_error(status: int, text: str, retry_after: str | None, now: datetime) -> BackendError:
    """An answer with a status that is no success. 4xx is never held against the backend."""
    default = "backend_refused" if 400 <= status < 500 else "backend_error"
    return BackendError(
        code=_CODES.get(status, default),
        stage=FailureStage.RUN,
        retryable=status in RETRYABLE_STATUS,
        message=f"the backend answered {status}{_said(text)}",
        blame=status >= 500 or status < 400,
        status=status,
        retry_after_s=read_retry_after(retry_after, now),
    )


def unreachable(error: BaseException) -> BackendError:
    return BackendError("backend_unreachable", FailureStage.TRANSPORT, True, _words(error), loses_model=True)


def connection_lost(error: BaseException) -> BackendError:
    return BackendError("connection_lost", FailureStage.TRANSPORT, True, _words(error))


def bad_payload(why: str) -> BackendError:
    return BackendError("bad_payload", FailureStage.RUN, False, why)


def unusable_input(why: str) -> BackendError:
    """The caller's doing: the backend was not even asked."""
    return BackendError("unusable_input", FailureStage.ADMISSION, False, why, blame=False)


def reported_error(message: str) -> BackendError:
    """A well-formed answer that says the run failed."""
    return BackendError("backend_error", FailureStage.RUN, False, message[:_TEXT_LENGTH])


def read_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds or an HTTP date (RFC 9110); what is neither says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, _LONGEST_WAIT_S)


def _seconds_until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return math.nan
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _said(text: str) -> str:
    line = " ".join(text.split())[:_TEXT_LENGTH]
    return f": {line}" if line else ""


def _words(error: BaseException) -> str:
    return str(error)[:_TEXT_LENGTH] or type(error).__name__
