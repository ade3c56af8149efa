"""Grants: the fence that a new job was stored with, and all that a worker needs to begin it.

At most one worker ever gets it. It begins the job at once, and confirms in Postgres that it has it while it
runs. Any claim raises the fence, and then it is too late for that (docs/decisions/0013).
"""

from dataclasses import replace
from uuid import UUID

import orjson

from beacon_contracts.ids import UserId, timestamp_of
from beacon_contracts.tiers import Tier
from beacon_runner.domain.messages import Message, OutboxEntry
from beacon_runner.domain.stage_result import ClaimedJob

LARGEST = 4_096  # characters; the input of a larger job is read from Postgres
LASTS_S = 0.5  # half as long as the relay leaves the message to the process that stored it


def grant_of(job: ClaimedJob) -> str:
    """As it travels with the job's first message, in one line; empty when it is too large to."""
    text = orjson.dumps([job.user.hex, job.fence, job.stages, job.kind, job.tier, job.spec]).decode()
    return text if len(text) <= LARGEST else ""


def in_time(entry: OutboxEntry, now: float) -> OutboxEntry:
    """Without a grant that was held up: the relay may have brought the message, and the job may be over."""
    message = entry.message
    if not message.grant or now - timestamp_of(message.job) <= LASTS_S:
        return entry
    return replace(entry, message=replace(message, grant=""))


def granted(message: Message) -> ClaimedJob:
    """The job of a message with a grant: new, so nothing of it is known yet."""
    user, fence, stages, kind, tier, spec = orjson.loads(message.grant)
    return ClaimedJob(
        id=message.job,
        user=UserId(UUID(user)),
        fence=fence,
        ticket=message.ticket,
        stage=message.stage,
        stages=stages,
        attempt=message.attempt,
        kind=kind,
        spec=spec,
        context={},
        tier=Tier(tier),
        front=False,
    )
