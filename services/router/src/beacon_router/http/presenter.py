"""Renders an inference as `InferenceView`, and what the routes of `/inference` answer about it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import orjson

from beacon_config import LiveConfig
from beacon_contracts.inference import InferenceState
from beacon_http.problems import make_problem
from beacon_http.replies import Reply, problem_reply
from beacon_lifecycle import Clock
from beacon_router.scheduling import Holdup, Scheduler, Why
from beacon_router.service.breakers import Breakers
from beacon_router.service.failures import ROUTER_STOPPING, START_BY_PASSED
from beacon_router.service.inference import Inference, Run, RunRecord

# Failures before any run: the client may retry, here or at another router.
_STATUS_OF_FAILURE = {START_BY_PASSED: 504, ROUTER_STOPPING: 503}
RETRY_AFTER_S = 1.0
_NOT_QUEUED: dict[str, Any] = {"position": None, "eta": None, "waiting_for": None}


class InferencePresenter:
    """A backend does not report when loading is done: it is expected to take as long as configured."""

    def __init__(self, scheduler: Scheduler, breakers: Breakers, clock: Clock, live: LiveConfig) -> None:
        self._scheduler = scheduler
        self._breakers = breakers
        self._clock = clock
        self._live = live

    def answer(self, inference: Inference) -> Reply:
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
        now = self._clock.now()
        output = inference.output
        complete = inference.response if response else None
        document = {
            "request_id": inference.id,
            "state": inference.state if inference.run is None else self._state(inference.run, now),
            "model": inference.spec.model,
            "requested_region": inference.spec.region,
            "actual_region": inference.actual_region,
            "backend": inference.backend,
            "fence": inference.fence,
            "output": None if output is None else orjson.Fragment(output),
            "response": None if complete is None else orjson.Fragment(complete),
            "usage": inference.usage,
            "files": [file.model_dump() for file in inference.files],
            "remote": None if inference.remote is None else inference.remote.model_dump(),
            "progress": None if inference.progress is None else inference.progress.model_dump(),
            "failure": None if inference.failure is None else inference.failure.model_dump(mode="json"),
            **(_NOT_QUEUED if inference.done else self._queue_fields(inference, now)),
            "timing": timing_document(inference, now),
            "tries": [
                _attempt_document(number, attempt)
                for number, attempt in enumerate(inference.attempts, start=1)
            ],
        }
        return orjson.dumps(document)

    def _state(self, run: Run, now: float) -> InferenceState:
        """A cold run is warming for as long as its model is expected to load, or until it reports progress.

        What waits at its provider is queued.
        """
        if run.waiting or run.probes_start:
            return InferenceState.QUEUED
        model = self._live.current.models.get(run.inference.spec.model)
        load_s = 0.0 if model is None else model.expected_load_s
        warming = run.cold and run.inference.progress is None and now - run.started_at <= load_s
        return InferenceState.WARMING if warming else InferenceState.RUNNING

    def _queue_fields(self, inference: Inference, now: float) -> dict[str, Any]:
        """Position and estimate while it is queued."""
        if inference.state is InferenceState.BACKOFF and inference.retry_at is not None:
            wait_s = max(0.0, inference.retry_at - now)
            return {
                "position": None,
                "eta": None,
                "waiting_for": f"the next attempt, in {wait_s:.1f} s",
            }
        if inference.run is not None and inference.run.probes_start:
            start = inference.run.start
            return _NOT_QUEUED | {"waiting_for": _starting((start.backend,), start.region)}
        if inference.run is not None and inference.run.waiting:
            return _NOT_QUEUED | {"waiting_for": f"a worker of the backend {inference.backend}"}
        if inference.state is not InferenceState.QUEUED:
            return _NOT_QUEUED
        eta = self._scheduler.eta(now, inference.id)
        why = self._scheduler.why(now, inference.id)
        return {
            "position": None if why is None else why.ahead + 1,
            "eta": None if eta is None else {"p50_s": eta.p50_s, "p90_s": eta.p90_s},
            "waiting_for": None if why is None else self._sentence(why),
        }

    def _sentence(self, why: Why) -> str:
        if why.backends and all(map(self._breakers.is_starting, why.backends)):
            return _starting(why.backends, why.region)
        causes = self._breakers.causes(why.backends) if why.holdup is Holdup.BREAKER_OPEN else ""
        return f"{why} ({causes})" if causes else str(why)


def _starting(backends: Sequence[str], region: str) -> str:
    return f"starting: {', '.join(backends)} in {region} has no running instance yet"


def timing_document(inference: Inference, now: float) -> dict[str, float]:
    """All time that is not the load or run time of the last attempt counts as queued."""
    until = now if inference.ended_at is None else inference.ended_at
    total_s = max(0.0, until - inference.accepted_at)
    load_s = run_s = 0.0
    if inference.run is not None and inference.on_gpu:
        spent_s = max(0.0, now - inference.run.started_at)
        load_s, run_s = (spent_s, 0.0) if inference.run.cold else (0.0, spent_s)
    elif inference.run is None and inference.attempts:
        load_s, run_s = inference.attempts[-1].load_s, inference.attempts[-1].run_s
    return {"queued_s": max(0.0, total_s - load_s - run_s), "load_s": load_s, "run_s": run_s}


def _attempt_document(number: int, attempt: RunRecord) -> dict[str, Any]:
    return {
        "number": number,
        "region": attempt.region,
        "backend": attempt.backend,
        "outcome": attempt.outcome,
        "failure": None if attempt.failure is None else attempt.failure.model_dump(mode="json"),
        "timing": {"queued_s": attempt.queued_s, "load_s": attempt.load_s, "run_s": attempt.run_s},
    }
