"""What submissions are answered: documents of the form `JobAccepted`, made without one on the hot path."""

from collections.abc import Sequence

import orjson

from beacon_contracts.ids import encode_job_id
from beacon_contracts.jobs import JobState
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.domain.plan import first_asked
from beacon_runner.domain.submissions import NewJob, Submitted
from beacon_runner.http.views import links_of

_GAP = "{job_id}"


async def receipt(outlook: WaitEstimator, job: NewJob, accepted: Submitted) -> bytes:
    return await _document(outlook, job, accepted, encode_job_id(accepted.id))


async def receipts(outlook: WaitEstimator, jobs: Sequence[NewJob], accepted: Sequence[Submitted]) -> bytes:
    """Those of a batch differ in little but their ids: each kind is written once, with gaps for the ids."""
    kinds: dict[object, list[str]] = {}
    written = []
    for job, one in zip(jobs, accepted, strict=True):
        asked = first_asked(job.admitted.spec)
        # The new jobs of a batch share the rest.
        kind = asked if one.created else (one.state, one.tier, one.job_class, asked)
        parts = kinds.get(kind)
        if parts is None:
            parts = kinds[kind] = (await _document(outlook, job, one, _GAP)).decode().split(_GAP)
        written.append(encode_job_id(one.id).join(parts))
    return f'{{"jobs":[{",".join(written)}]}}'.encode()


async def _document(outlook: WaitEstimator, job: NewJob, accepted: Submitted, job_id: str) -> bytes:
    queued = accepted.state is JobState.QUEUED
    position = await outlook.newcomer(accepted.job_class, job.lane) if queued else None
    return orjson.dumps(
        {
            "job_id": job_id,
            "status": accepted.state,
            "tier": accepted.tier,
            "priority": accepted.job_class,
            "position": position,
            "estimated_wait_s": outlook.wait_s(job.admitted.spec, position),
            "links": links_of(job_id),
        }
    )
