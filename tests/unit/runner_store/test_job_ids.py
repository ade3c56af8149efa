"""Ids of a batch: unique, in its order, and after earlier ids."""

from uuid import UUID

from beacon_contracts.ids import decode_job_id, encode_job_id, new_uuid
from beacon_runner.domain.jobs.job_ids import batch_of, ids_from, new_job_ids


def test_ids_of_batches_are_all_different_and_in_order() -> None:
    batches = [new_job_ids(10_000) for _ in range(5)]
    made = [job for batch in batches for job in batch]
    assert len(set(made)) == 50_000
    assert made == sorted(made)


def test_ids_made_one_by_one_go_in_between() -> None:
    made = [new_uuid(), *new_job_ids(100), new_uuid(), *new_job_ids(100), new_uuid()]
    assert made == sorted(made)


def test_the_ids_of_a_batch_follow_from_its_first_id() -> None:
    made = new_job_ids(10_000)
    assert ids_from(made[0], 10_000) == made


def test_a_batch_is_named_by_any_of_its_ids() -> None:
    batches = [new_job_ids(10_000), new_job_ids(10_000)]
    assert len({batch_of(job) for batch in batches for job in batch}) == 2


def test_they_are_ids_like_all_others() -> None:
    for job in new_job_ids(2_000):
        assert UUID(bytes=job.bytes).version == 7
        assert decode_job_id(encode_job_id(job)) == job


def test_none_of_none() -> None:
    assert new_job_ids(0) == []
