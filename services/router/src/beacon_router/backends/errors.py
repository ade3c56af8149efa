"""Classifies failures: which are retryable, and which count against the backend."""

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from beacon_contracts.failures import FailureStage
from beacon_router.backends.types import BackendError, BackendFault

RETRYABLE_STATUS = frozenset({408, 425, 429, 502, 503, 504})

_CODES = {
    408: "backend_timeout",
    425: "backend_too_early",
    429: "backend_busy",
    502: "backend_unavailable",
    503: "backend_unavailable",
    504: "backend_timeout",
}
_ERROR_FIELDS = ("message", "type", "param", "code")
MAX_ERROR_OBJECT_BYTES = 65_536
MAX_ERROR_TEXT_LENGTH = 1_000
ACCESS_FAULTS = {
    401: "it does not accept the router's credentials (401)",
    402: "its account has no credit (402)",
    403: "it denies the router access (403)",
    407: "its proxy does not accept the router's credentials (407)",
}
MAX_TEXT_LENGTH = 300
RUN_UNKNOWN = "run_unknown"
MAX_RETRY_AFTER_S = 86_400.0


def status_error(
    status: int,
    text: str,
    retry_after: str | None,
    now: datetime,
    *,
    error: Mapping[str, Any] | None = None,
) -> BackendError:
    """A response with an error status. 4xx does not count against the backend, except those about access."""
    if status in ACCESS_FAULTS:
        return backend_fault("backend_unauthorized", ACCESS_FAULTS[status], status=status)
    default = "backend_refused" if 400 <= status < 500 else "backend_error"
    return BackendError(
        code=_CODES.get(status, default),
        stage=FailureStage.RUN,
        retryable=status in RETRYABLE_STATUS,
        message=f"the backend answered {status}{_excerpt(text)}",
        counts_as_failure=status >= 500 or status < 400,
        status=status,
        retry_after_s=parse_retry_after(retry_after, now),
        error=error,
    )


def request_forbidden() -> BackendError:
    """A 403 to this request, while the backend accepts the credentials. Without the backend's text."""
    message = "the backend does not allow this request (403)"
    return BackendError(
        "request_forbidden", FailureStage.RUN, False, message, counts_as_failure=False, status=403
    )


def account_locked() -> BackendError:
    return backend_fault("backend_unauthorized", "its account is locked or has no credit (403)", status=403)


def means_no_instance(error: BackendError) -> bool:
    """Of a backend that is scaled to zero: no server is there yet, only its proxy or nothing."""
    return error.code in ("backend_unreachable", "dns_failed") or error.status in (502, 503)


def error_object(body: bytes) -> dict[str, Any] | None:
    """The error of an OpenAI-compatible response: `{"error": {…}}`, or with the same fields at the top; long
    texts are cut."""
    if len(body) > MAX_ERROR_OBJECT_BYTES:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    error = document if document.get("object") == "error" else document.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    return {
        name: value[:MAX_ERROR_TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in error.items()
        if name in _ERROR_FIELDS and (value is None or isinstance(value, str | int | float))
    }


def backend_fault(code: str, message: str, *, status: int | None = None) -> BackendError:
    """Its message never contains text of the backend: users see it."""
    return BackendError(
        code,
        FailureStage.TRANSPORT,
        True,
        message,
        status=status,
        fault=BackendFault(code, message),
    )


def unreachable(error: BaseException) -> BackendError:
    """Without the host name, also where the driver's text ends with it: users see the message."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "the name does not match"
            return backend_fault(
                "tls_failed", f"its TLS certificate is not accepted: {reason.partition(',')[0]}"
            )
        case aiohttp.ClientSSLError():
            reason = getattr(error, "reason", None) or getattr(error.os_error, "reason", None)
            return backend_fault(
                "tls_failed", f"no TLS connection is possible: {reason or 'handshake failed'}"
            )
        case aiohttp.ClientConnectorDNSError():
            return backend_fault("dns_failed", "its host name cannot be resolved")
    return BackendError(
        "backend_unreachable", FailureStage.TRANSPORT, True, _connect_reason(error), model_state_unknown=True
    )


def connection_lost(reason: str) -> BackendError:
    return BackendError("connection_lost", FailureStage.TRANSPORT, True, reason)


def run_timeout(limit_s: float) -> BackendError:
    message = f"not done within the {limit_s:g} s that a run may take on this backend"
    return BackendError("run_timeout", FailureStage.RUN, True, message, model_state_unknown=True)


def submission_unanswered(cause: str) -> BackendError:
    """Not repeated: the provider may run the first one."""
    message = f"the submission has no usable answer, and is not repeated because the run may go on: {cause}"
    return BackendError("submission_unanswered", FailureStage.TRANSPORT, False, message)


def run_unknown() -> BackendError:
    message = "the backend does not know the run any more"
    return BackendError(RUN_UNKNOWN, FailureStage.RUN, True, message)


def cancelled_remotely() -> BackendError:
    message = "the run was cancelled at the backend"
    return BackendError("cancelled_remotely", FailureStage.RUN, True, message, counts_as_failure=False)


def output_too_large(limit: int) -> BackendError:
    message = f"an output file is larger than {limit} bytes (files.max_bytes)"
    return BackendError("output_too_large", FailureStage.RECORD, False, message, counts_as_failure=False)


def file_store_unavailable() -> BackendError:
    """As a fault of the backend: its work waits uncharged, and no GPU time is spent but on probes."""
    message = "the files of its requests or answers cannot be read or written: the file store is unavailable"
    return backend_fault("file_store_unavailable", message)


def input_file_missing(name: str, reason: str) -> BackendError:
    message = f"the file {name} of the input cannot be read: {reason}"
    return BackendError("input_file_missing", FailureStage.ADMISSION, False, message, counts_as_failure=False)


def files_have_no_url() -> BackendError:
    message = "the backend gets files by url, but they have no address: BEACON_PUBLIC_URL is not set"
    return BackendError("files_have_no_url", FailureStage.ADMISSION, False, message, counts_as_failure=False)


def output_not_fetched(reason: str, *, retryable: bool) -> BackendError:
    message = f"a file of the output could not be fetched: {reason}"
    return BackendError("output_not_fetched", FailureStage.RECORD, retryable, message)


def bad_payload(reason: str) -> BackendError:
    return BackendError("bad_payload", FailureStage.RUN, False, reason)


def unusable_input(reason: str) -> BackendError:
    """The caller's mistake: nothing was sent to the backend."""
    return BackendError("unusable_input", FailureStage.ADMISSION, False, reason, counts_as_failure=False)


def reported_error(message: str) -> BackendError:
    """A well-formed response that reports a failed run."""
    return BackendError("backend_error", FailureStage.RUN, False, message[:MAX_TEXT_LENGTH])


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds or an HTTP date (RFC 9110); anything else is ignored."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, MAX_RETRY_AFTER_S)


def _seconds_until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return math.nan
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _excerpt(text: str) -> str:
    line = " ".join(text.split())[:MAX_TEXT_LENGTH]
    return f": {line}" if line else ""


def _connect_reason(error: BaseException) -> str:
    """Without the address, which the driver's text has: users see it, and a URL may carry a secret."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "no connection within the time limit"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            known = os.strerror(number) if number and number > 0 else type(error.os_error).__name__
            return f"no connection is possible ({known})"
    return text_of(error)


def text_of(error: BaseException) -> str:
    return str(error)[:MAX_TEXT_LENGTH] or type(error).__name__
