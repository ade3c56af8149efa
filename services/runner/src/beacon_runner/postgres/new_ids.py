"""New ids in the driver's own form: making and storing one costs a quarter of what a standard one costs."""

from asyncpg.pgproto.pgproto import UUID

from beacon_contracts.ids import JobId, new_uuid_bytes


def new_job_id() -> JobId:
    """Later ones sort after earlier ones."""
    return JobId(UUID(new_uuid_bytes()))


def new_job_ids(count: int) -> list[JobId]:
    """Those of a batch, in its order: one random id whose last 20 bits count. 54 random bits are left."""
    start = new_uuid_bytes()
    return _counting(start[:13], (start[13] & 0xF0) << 16, count)


def ids_from(first: JobId, count: int) -> list[JobId]:
    """Those of the batch that a given job is the first of."""
    return _counting(first.bytes[:13], int.from_bytes(first.bytes[13:]), count)


def batch_of(job: JobId) -> str:
    """The name of a job's batch: what the ids of its jobs have in common."""
    return job.hex[:27]


def _counting(shared: bytes, first: int, count: int) -> list[JobId]:
    return [JobId(UUID(shared + number.to_bytes(3))) for number in range(first, first + count)]
