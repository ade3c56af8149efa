"""Values that new jobs share are sent to Postgres once."""

import orjson

from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.jobs.admission import AdmittedJob
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.postgres.jobs.submissions import submit_params

FIRST_SHARED = 9  # the index of the first list of shared values
ADMITTED = AdmittedJob("generation", "", {"model": "flux"}, 1, 1)


def new_job(name: str, user: UserId, lane: str = "queue_1") -> NewJob:
    return NewJob(JobId(new_uuid()), user, "free", JobClass.LOW, lane, ADMITTED._replace(name=name))


def test_each_job_has_the_index_of_its_shared_values() -> None:
    anna, bert = UserId(new_uuid()), UserId(new_uuid())
    jobs = [new_job("a", anna), new_job("b", anna), new_job("a", bert), new_job("a", anna)]
    ids, indexes, specs, *_ = params = submit_params(jobs)
    users, _, _, _, _, _, names, stages, totals = params[FIRST_SHARED : FIRST_SHARED + 9]
    assert ids == "{" + ",".join(job.id.hex for job in jobs) + "}"
    assert indexes == "{1,2,3,1}"
    assert orjson.loads(specs) == [{"model": "flux"}] * 4
    assert (users, names, stages, totals) == ([anna, anna, bert], ["a", "b", "a"], [1] * 3, [1] * 3)


def test_the_lane_of_a_user_is_stored_as_null() -> None:
    anna, bert = UserId(new_uuid()), UserId(new_uuid())
    lanes = [anna.hex, bert.hex, "queue_1", ""]
    params = submit_params([new_job("a", anna, lane) for lane in lanes])
    assert params[FIRST_SHARED + 3] == [None, bert.hex, "queue_1", ""]
