"""What a worker reads out of a grant is what a claim would have told it."""

from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.grants import LARGEST, grant_of, granted
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import ERA_BITS, ClaimedJob

FENCE = (1_800_000_000 << ERA_BITS) + 1


def new(prompt: str) -> ClaimedJob:
    spec = {"model": "flux", "region": "US", "input": {"prompt": prompt}}
    user = UserId(new_uuid())
    return ClaimedJob(
        JobId(new_uuid()), user, FENCE, 1, 0, 1, 1, "generation", spec, {}, Tier.CREATOR, front=False
    )


def test_a_grant_tells_what_a_claim_would() -> None:
    job = new('several\nlines, "quotes" and ü')
    grant = grant_of(job)
    assert "\n" not in grant, "it travels in one line"
    assert granted(Message(job.id, 1, 0, 1, JobClass.LOW, "anna", grant=grant)) == job


def test_a_large_input_is_left_in_postgres() -> None:
    assert grant_of(new("x" * LARGEST)) == ""
