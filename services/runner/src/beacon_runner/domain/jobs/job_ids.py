"""Ids of new jobs. Those of a batch are consecutive, so the first one identifies the others."""

from uuid import UUID

from beacon_contracts.ids import JobId, new_uuid


def new_job_ids(count: int) -> list[JobId]:
    """The ids of a batch, in its order: one random id whose last 20 bits count; 54 random bits are left."""
    return ids_from(JobId(UUID(int=new_uuid().int >> 20 << 20)), count)


def ids_from(first: JobId, count: int) -> list[JobId]:
    """The ids of the batch whose first job is given."""
    return [JobId(UUID(int=number)) for number in range(first.int, first.int + count)]


def batch_of(job: JobId) -> str:
    """The name of a job's batch: the common prefix of the ids of its jobs."""
    return job.hex[:27]
