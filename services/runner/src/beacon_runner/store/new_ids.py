"""New ids in the driver's own form: making and storing one costs a quarter of what a standard one costs."""

from asyncpg.pgproto.pgproto import UUID

from beacon_contracts.ids import JobId, new_uuid_bytes


def new_job_id() -> JobId:
    """Later ones sort after earlier ones."""
    return JobId(UUID(new_uuid_bytes()))
