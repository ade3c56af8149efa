"""`x-ratelimit-*` headers in OpenAI's format."""

from collections.abc import Mapping

from beacon_http.replies import Headers
from beacon_runner.domain.limits.request_quota import Admitted, LimitState, Refused


def request_limit_headers(admission: Admitted | Refused) -> Headers:
    """`requests` are those of a minute, as OpenAI's clients read them."""
    return rate_limit_headers(
        {
            "requests": admission.requests_per_minute,
            "concurrent-requests": admission.concurrent_requests,
        }
    )


def rate_limit_headers(limits: Mapping[str, LimitState]) -> Headers:
    """The limits that apply; `reset` is missing where it is unknown."""
    values: dict[str, str] = {}
    for name, state in limits.items():
        if state.limit is None:
            continue
        values[f"x-ratelimit-limit-{name}"] = str(state.limit)
        values[f"x-ratelimit-remaining-{name}"] = str(state.remaining)
        if state.reset_s is not None:
            values[f"x-ratelimit-reset-{name}"] = duration_text(state.reset_s)
    return tuple((name.encode(), value.encode()) for name, value in values.items())


def duration_text(seconds: float) -> str:
    """`120ms`, `1.5s`, `6m0s` or `1h2m3s`, rounded up to milliseconds."""
    milliseconds = -int(-seconds * 1000 // 1)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds, 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{second}.{rest:03d}".rstrip("0") if rest else str(second)
    if hours:
        return f"{hours}h{minute}m{text}s"
    return f"{minute}m{text}s" if minute else f"{text}s"
