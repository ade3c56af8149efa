"""Ids of new jobs. Those of a batch are consecutive, so the first one identifies the others."""

from uuid import UUID

from beacon_contracts.ids import JobId, new_uuid


def new_job_ids(count: int) -> list[JobId]:
    """The ids of a batch, in its order: one random id whose last 20 bits count; 54 random bits are left."""
    start = new_uuid().bytes
    return _consecutive(start[:13], (start[13] & 0xF0) << 16, count)


def ids_from(first: JobId, count: int) -> list[JobId]:
    """The ids of the batch whose first job is given."""
    return _consecutive(first.bytes[:13], int.from_bytes(first.bytes[13:]), count)


def batch_of(job: JobId) -> str:
    """The name of a job's batch: the common prefix of the ids of its jobs."""
    return job.hex[:27]


def _consecutive(prefix: bytes, first: int, count: int) -> list[JobId]:
    return [JobId(UUID(bytes=prefix + number.to_bytes(3))) for number in range(first, first + count)]
