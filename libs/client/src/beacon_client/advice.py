"""Advice for people on an error, by its status or code."""

from beacon_contracts.problem import Problem

_BY_STATUS = {
    0: "Is Beacon running? `beacon up` starts it; BEACON_RUNNER_URL sets its address; see `beacon doctor`.",
    400: "Correct the request; the detail says what is wrong with it.",
    401: "Set BEACON_API_KEY to a valid key; `beacon up` prints two of them when it starts.",
    402: "The account has too little credit; an administrator adds it with `beacon users credit`.",
    403: "This key lacks the scope for it; use an administrator's key.",
    404: "Check the id; this key cannot read what belongs to other users.",
    409: "The job's state has changed, or the idempotency key was used for another body.",
    413: "Make it smaller, or split it into several jobs.",
    422: "Correct the named fields; `beacon models` and `beacon regions` list the valid values.",
}
_BY_CODE = {
    "not_retryable": "The failure is permanent; correct the job and submit it again.",
    "config_changed": "Another change was made meanwhile: see `beacon config history`, and repeat yours.",
    "work_stranded": "Let its work end first, or repeat with --force: the work then fails.",
    "unknown_backend": "`beacon backends` lists them.",
    "name_taken": "Choose another name.",
    "batch_exceeds_limit": "Submit it in several smaller batches; `beacon me` shows the limits.",
}


def advice_for(problem: Problem) -> str:
    """One sentence that helps with this problem, or none."""
    if problem.retry_after_s is not None:
        return f"Try again in {problem.retry_after_s:g} s."
    if problem.status == 429:
        return "A limit is reached; `beacon me` shows the limits and what is left of them."
    if problem.status >= 500:
        return "The server failed; try again, and run `beacon doctor` if it persists."
    return _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status, "")
