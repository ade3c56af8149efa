"""Files of jobs: inputs are linked, outputs are recorded with their result, and both end with the job."""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from beacon_client.runner import RunnerClient
from beacon_config.features import FeatureConfig
from beacon_contracts.files import OutputFile, output_object_name, output_reference
from beacon_contracts.ids import FILE, FileId, decode_id, encode_id, new_uuid
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import ExecutionState
from beacon_contracts.tiers import JobClass
from beacon_files import open_store
from beacon_lifecycle import ManualClock
from beacon_runner.domain.execution.stage_result import ClaimedJob, StageReport
from beacon_runner.domain.jobs.retention import Removal
from beacon_runner.domain.queue.messages import Message
from beacon_runner.maintenance.file_cleanup import FileCleanup
from beacon_runner.postgres.files import PostgresFiles
from beacon_runner.postgres.jobs.claims import PostgresClaims
from beacon_runner.worker.executor import request_of
from beacon_runner.worker.run import JobRun, build_run
from tests.integration.runner_api.files.test_files import PNG, SMALL, UNKNOWN, objects, upload
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller, api_harness
from tests.integration.runner_store.harness import POLICY

IMAGE_TO_IMAGE = {"kind": "generation", "model": "flux", "region": "US"}


def naming(file_id: str) -> dict[str, Any]:
    return IMAGE_TO_IMAGE | {"input": {"prompt": "a hat", "images": [{"file": file_id, "weight": 0.5}]}}


async def made(api: ApiHarness, data: bytes = PNG, name: str = "image.png") -> OutputFile:
    """What the router does with the bytes of an output."""

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    file = FileId(new_uuid())
    await open_store(api.files).put(output_object_name(file), chunks(), max_bytes=len(data))
    return OutputFile(
        id=encode_id(FILE, file),
        object=output_object_name(file),
        name=name,
        content_type="image/png",
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
    )


def report_with(claimed: ClaimedJob, *files: OutputFile) -> StageReport:
    """What a worker reports when the stage ends with one file for each execution."""
    run = begun(claimed)
    for file in files:
        pending = run.start_next(len(files))
        assert pending is not None
        view = InferenceView(
            request_id="any",
            state=InferenceState.COMPLETED,
            model=pending.execution.model,
            requested_region=pending.execution.region,
            fence=claimed.fence,
            output=output_reference(file),
            files=[file],
        )
        run.finish(pending, view, 1.0)
    run.verdict = run.decide(POLICY, 0.0)
    return run.take_report()


def begun(claimed: ClaimedJob) -> JobRun:
    message = Message(claimed.id, 1, claimed.stage, 1, JobClass.HIGH, "lane")
    return build_run(message, claimed, 0.0, max_deliveries=5)


async def delete_jobs(api: ApiHarness) -> None:
    retention = api.store.retention
    await retention.remove(Removal.JOBS, await retention.find(Removal.JOBS, -1.0, 100))


def cleanup(api: ApiHarness) -> FileCleanup:
    return FileCleanup(PostgresFiles(api.store.database), open_store(api.files), ManualClock())


async def test_an_input_file_is_kept_while_its_job_needs_it(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    path = f"/api/v1/files/{file['id']}"
    job_id = await anna.submit(naming(file["id"]))
    assert (await anna.get(path))["expires_at"] is None
    refused = await anna.http.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "file_in_use")
    assert job_id in refused.json()["detail"]
    (claimed,) = await api.claim()
    assert request_of_job(claimed)["files"] == [
        {
            "id": file["id"],
            "object": str(objects(api)[0].relative_to(api.files)),
            "name": "cat.png",
            "content_type": "image/png",
            "bytes": len(PNG),
            "url": None,
        }
    ]
    await api.store.run(claimed, "done")
    assert (await anna.http.delete(path)).status_code == 200
    assert objects(api) == []


async def test_a_backend_can_fetch_an_input_by_its_address(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    await anna.submit(naming(file["id"]))
    await api.publish()
    messages: list[Message] = list(await api.queue.claim(list(JobClass), 1, "w1"))
    claims = PostgresClaims(api.store.database, public_url="http://runner")
    (claimed,) = await claims.claim(messages, "w1")
    (sent,) = request_of_job(claimed)["files"]
    content = await api.caller(None).http.get(sent["url"])
    assert content.content == PNG


def request_of_job(claimed: ClaimedJob) -> dict[str, Any]:
    pending = begun(claimed).start_next(10)
    assert pending is not None
    return request_of(claimed, pending, 10.0, ()).model_dump(mode="json")


@pytest.mark.parametrize(
    "given",
    [
        {"image": {"file": UNKNOWN}},
        {"image": {"file": "file_x"}},
        {"image": {"file": "file_../../etc/passwd"}},
        {"image": {"file": f"{UNKNOWN}/../{UNKNOWN}"}},
        {"image": {"file": UNKNOWN.upper().replace("FILE", "file")}},
        {"image": {"file": UNKNOWN.replace("file", "job")}},
    ],
    ids=["unknown", "short", "path", "two ids", "upper case", "id of a job"],
)
@pytest.mark.parametrize("kind", ["generation", "pipeline"])
async def test_an_unknown_file_is_refused(
    api: ApiHarness, anna: Caller, given: dict[str, Any], kind: str
) -> None:
    bodies = {
        "generation": IMAGE_TO_IMAGE | {"input": given},
        "pipeline": {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "a", **given}},
    }
    problem = await anna.post("/api/v1/jobs", bodies[kind], 422)
    assert [(one["field"], one["code"]) for one in problem["errors"]] == [
        ("input.image.file", "unknown_file")
    ]
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []
    assert await api.claim() == []


async def test_foreign_expired_and_other_ids_are_refused(api: ApiHarness, anna: Caller) -> None:
    foreign = await upload(await api.user("bert"))
    await anna.post("/api/v1/jobs", naming(foreign["id"]), 422)
    expired = await upload(anna)
    await api.store.database.execute("UPDATE files SET expires_at = now() - interval '1 s' WHERE name <> ''")
    await anna.post("/api/v1/jobs", naming(expired["id"]), 422)
    as_number = IMAGE_TO_IMAGE | {"input": {"prompt": "x", "file": 7, "other": {"file": "job_x"}}}
    await anna.submit(as_number)  # not references
    assert await api.store.database.fetchval("SELECT count(*) FROM job_files") == 0


async def test_a_batch_with_one_unknown_file_stores_nothing(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    jobs = [GENERATION, naming(UNKNOWN), naming(file["id"])]
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": jobs}, 422)
    assert [one["field"] for one in problem["errors"]] == ["jobs[1].input.images[0].file"]
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []
    assert (await anna.get(f"/api/v1/files/{file['id']}"))["expires_at"] is not None


async def test_a_submission_and_a_deletion_at_once_never_lose_the_file(api: ApiHarness, anna: Caller) -> None:
    for _ in range(8):
        file = await upload(anna)
        submitted, deleted = await asyncio.gather(
            anna.http.post("/api/v1/jobs", json=naming(file["id"])),
            anna.http.delete(f"/api/v1/files/{file['id']}"),
        )
        assert (submitted.status_code, deleted.status_code) in {(202, 409), (422, 200)}
        if submitted.status_code == 202:
            (claimed,) = await api.claim()
            assert file["id"] in claimed.files
            await api.store.run(claimed, "done")


async def test_outputs_are_recorded_with_their_result(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    file = await made(api, name="../../a\0b.png")
    report = report_with(claimed, file)
    assert await api.store.claims.record([report]) == {claimed.id}
    assert await api.store.claims.record([report]) == frozenset()  # an answer that was lost
    execution = (await anna.job(job_id))["executions"][0]
    assert execution["output"]["url"] == f"/api/v1/files/{file.id}/content"
    assert (await anna.http.get(execution["output"]["url"])).content == PNG
    (listed,) = (await anna.get("/api/v1/files"))["files"]
    assert (listed["id"], listed["job_id"], listed["name"]) == (file.id, job_id, "ab.png")
    assert listed["expires_at"] is None
    assert await used(anna) == len(PNG)
    bert = await api.user("bert")
    assert (await bert.http.get(execution["output"]["url"])).status_code == 404


async def used(caller: Caller) -> int:
    return int((await caller.get("/api/v1/me"))["limits"]["storage_bytes"]["used"])


async def test_a_worker_that_lost_its_lease_records_no_files(api: ApiHarness, anna: Caller) -> None:
    await anna.submit(GENERATION)
    (older,) = await api.claim()
    message = Message(older.id, 1, 0, 1, JobClass.HIGH, "lane")
    (newer,) = await api.store.claims.claim([message], "w2")
    first, second = await made(api), await made(api)
    assert await api.store.claims.record([report_with(older, first)]) == frozenset()
    assert await used(anna) == 0
    assert await api.store.claims.record([report_with(newer, second)]) == {newer.id}
    assert await used(anna) == second.bytes


async def test_a_failed_execution_leaves_no_record_of_its_files(api: ApiHarness, anna: Caller) -> None:
    await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    report = report_with(claimed, await made(api))
    broken = report.executions[0]._replace(state=ExecutionState.FAILED, files=())
    assert await api.store.claims.record([report._replace(executions=(broken,))])
    assert await used(anna) == 0


async def test_files_are_deleted_with_their_job(api: ApiHarness, anna: Caller) -> None:
    file = await upload(anna)
    job_id = await anna.submit(naming(file["id"]))
    (claimed,) = await api.claim()
    output = await made(api)
    await api.store.claims.record([report_with(claimed, output)])
    again = await anna.submit(naming(output.id))  # an output as input of another job
    assert (await anna.http.delete(f"/api/v1/jobs/{job_id}")).status_code == 204
    await anna.get(f"/api/v1/jobs/{job_id}", 404)
    assert (await anna.http.get(f"/api/v1/files/{file['id']}")).status_code == 404
    assert (await anna.http.get(f"/api/v1/files/{output.id}")).status_code == 200
    assert await used(anna) == output.bytes
    assert (await cleanup(api).run_once()).count == 1
    assert {path.name for path in objects(api)} == {decode_id(FILE, output.id).hex, "database"}
    (claimed,) = await api.claim()
    assert list(claimed.files) == [output.id]
    await api.store.run(claimed, "done")
    await delete_jobs(api)
    await anna.get(f"/api/v1/jobs/{again}", 404)
    await cleanup(api).run_once()
    assert [path.name for path in objects(api)] == ["database"]
    assert await used(anna) == 0


REDRAW = [
    {"name": "draw", "model": "flux", "input": {"prompt": "{{ input.prompt }}"}},
    {"name": "edit", "model": "flux", "input": {"image": "{{ draw }}", "hint": "{{ input.hint }}"}},
]
PIPELINE = CONFIG.model_copy(update={"features": {"redraw": FeatureConfig.model_validate({"steps": REDRAW})}})


async def test_a_step_gets_the_output_of_an_earlier_step_by_reference(
    database_url: str, redis_url: str
) -> None:
    async with api_harness(database_url, redis_url, PIPELINE) as api:
        anna = await api.user()
        hint = await upload(anna)
        given = {"prompt": "a city", "hint": {"file": hint["id"]}}
        await anna.submit({"kind": "pipeline", "feature": "redraw", "input": given})
        (claimed,) = await api.claim()
        assert request_of_job(claimed)["files"] == []  # the first step does not name it
        image = await made(api)
        await api.store.claims.record([report_with(claimed, image)])
        (claimed,) = await api.claim()
        request = request_of_job(claimed)
        assert request["input"] == {"image": output_reference(image), "hint": {"file": hint["id"]}}
        assert {one["id"] for one in request["files"]} == {image.id, hint["id"]}


async def test_a_step_whose_input_names_a_file_that_does_not_exist_fails_clearly(
    database_url: str, redis_url: str
) -> None:
    async with api_harness(database_url, redis_url, PIPELINE) as api:
        anna = await api.user()
        await anna.submit(
            {"kind": "pipeline", "feature": "redraw", "input": {"prompt": "a city", "hint": "bright"}}
        )
        (claimed,) = await api.claim()
        report = report_with(claimed, await made(api))
        (run,) = report.executions
        await api.store.claims.record([report._replace(executions=(run._replace(files=()),))])
        (claimed,) = await api.claim()
        (failed,) = begun(claimed).take_report().executions
        failure = failed.failure
        assert failure is not None
        assert (failure.code, failure.retryable, failure.item) == ("missing_file", False, "edit")


async def test_full_storage_refuses_uploads_and_jobs_but_no_output(database_url: str, redis_url: str) -> None:
    async with api_harness(database_url, redis_url, SMALL) as api:
        anna = await api.user("anna", "free")
        await anna.submit(GENERATION)
        (claimed,) = await api.claim()
        await api.store.claims.record([report_with(claimed, await made(api, bytes(2_000)))])
        assert await used(anna) == 2_000
        full = await anna.http.post("/api/v1/files", content=b"x")
        assert (full.status_code, full.json()["code"]) == (413, "storage_limit")
        refused = await anna.http.post("/api/v1/jobs", json=GENERATION)
        assert (refused.status_code, refused.json()["code"]) == (429, "storage_limit")
        assert (refused.json()["limit"], refused.json()["used"]) == (1_500, 2_000)
        waiting = await anna.submit(GENERATION | {"on_limit": "wait"})
        assert (await anna.job(waiting))["status"] == "scheduled"
        await delete_jobs(api)
        await anna.submit(GENERATION)


async def test_the_files_of_a_job_are_one_archive(api: ApiHarness, anna: Caller, tmp_path: Path) -> None:
    job_id = await anna.submit(GENERATION)
    empty = await anna.http.get(f"/api/v1/jobs/{job_id}/files.zip")
    assert zipfile.ZipFile(io.BytesIO(empty.content)).namelist() == []
    (claimed,) = await api.claim()
    first, second, third = [await made(api, PNG + bytes([n]), "a/b:c.png") for n in range(3)]
    report = report_with(claimed, first)
    (run,) = report.executions
    run = run._replace(files=(first, second, third))
    await api.store.claims.record([report._replace(executions=(run,))])
    answer = await anna.http.get(f"/api/v1/jobs/{job_id}/files.zip")
    assert answer.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    names = ["b-c.png", "b-c (2).png", "b-c (3).png"]
    assert archive.namelist() == [f"generation/flux-US/{name}" for name in names]
    assert archive.read(archive.namelist()[2]) == PNG + b"\2"
    key = anna.http.headers["authorization"].removeprefix("Bearer ")
    async with RunnerClient("http://runner", key, transport=api.transport) as client:
        size = await client.files.download_all(job_id, tmp_path / "files.zip")
    assert size == len(answer.content)
    bert, anyone = await api.user("bert"), api.caller(None)
    await bert.get(f"/api/v1/jobs/{job_id}/files.zip", 404)
    await bert.post(f"/api/v1/jobs/{job_id}/files.zip/url", None, 404)
    signed = (await anna.post(f"/api/v1/jobs/{job_id}/files.zip/url"))["url"]
    assert (await anyone.http.get(signed)).content == answer.content
    other = await anna.submit(GENERATION)
    for wrong in (signed.replace(job_id, other), signed.replace("expires=", "expires=1"), signed[:-3]):
        assert (await anyone.http.get(wrong)).status_code == 404
    await api.clock.advance(CONFIG.files.url_expires_s + 1)
    assert (await anyone.http.get(signed)).status_code == 404
    await asyncio.to_thread(Path(api.files, first.object).unlink)
    lost = await anna.http.get(f"/api/v1/jobs/{job_id}/files.zip")
    assert (lost.status_code, lost.json()["code"]) == (503, "file_store_unavailable")


async def test_an_input_that_its_model_refuses_costs_no_gpu_time(database_url: str, redis_url: str) -> None:
    schema = {"properties": {"steps": {"type": "integer", "maximum": 50}}, "required": ["steps"]}
    flux = CONFIG.models["flux"].model_copy(update={"input_schema": schema})
    config = CONFIG.model_copy(update={"models": {**CONFIG.models, "flux": flux}})
    async with api_harness(database_url, redis_url, config) as api:
        anna = await api.user()
        models = {model["id"]: model for model in (await anna.get("/api/v1/models"))["models"]}
        assert (models["flux"]["input_schema"], models["sdxl"]["input_schema"]) == (schema, None)
        problem = await anna.post("/api/v1/jobs", IMAGE_TO_IMAGE | {"input": {"steps": 51}}, 422)
        assert [(one["field"], one["code"]) for one in problem["errors"]] == [("input.steps", "schema")]
        assert await api.claim() == []
        await anna.submit(IMAGE_TO_IMAGE | {"input": {"steps": 50}})
