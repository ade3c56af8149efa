"""Accounts for every job and every GPU run when nothing is live any more."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from uuid import UUID

import asyncpg
import orjson

from beacon_contracts.files import output_object_name
from beacon_contracts.ids import (
    FILE,
    USER,
    FileId,
    JobId,
    UserId,
    decode_execution_id,
    decode_id,
    decode_job_id,
    encode_execution_id,
    encode_id,
)
from beacon_runner.domain.files.files import object_name
from beacon_runner.maintenance.file_cleanup import OWNER_OBJECT
from tests.acceptance.router.ledger_checks import Call, most_at_once
from tests.chaos.changes import Restriction
from tests.chaos.load import Load
from tests.chaos.system import CAP, System
from tests.fixtures.waiting import until

FILES = "SELECT id, user_id, job_id, size, sha256 FROM files"


async def settle(system: System) -> None:
    """Wait until no job is live in Postgres and no message is in Redis, while there is progress."""
    while live := await _live_jobs(system):
        await until(partial(_fewer_live, system, live), f"one of {live} live jobs ends")
    await until(lambda: _redis_is_empty(system), "Redis holds no message and no counter")
    await until(lambda: _webhooks_are_sent(system), "all webhooks were delivered")


async def check(system: System, load: Load) -> None:
    """Submitted = completed + cancelled, each once; all counters are zero; every result has its run."""
    states = await _states(system, load)
    accepted = [decode_job_id(job) for job in load.accepted]
    assert len(set(accepted)) == len(accepted) == len(states), "a submission was lost, or stored twice"
    cancelled = {decode_job_id(job) for job in load.cancelled}
    ended = {job: states.get(job) for job in accepted}
    assert {ended[job] for job in cancelled} <= {"cancelled"}, "a cancelled job went on"
    lost = {job: state for job, state in ended.items() if state not in ("completed", "cancelled")}
    assert lost == {}, "jobs did not come to their end"
    await _each_execution_once(system)
    await _runs_match_results(system, states)
    await _limits_were_kept(system)
    await _files_match_outputs(system)
    await _files_are_stored(system, load)
    await _storage_is_exact(system, load)
    _each_end_was_sent(system, load, states)


def _each_end_was_sent(system: System, load: Load, states: Mapping[UUID, str]) -> None:
    """The receiver got the end of each job, perhaps several times, but with one id."""
    sent = {
        (decode_job_id(event["data"]["job_id"]), event["type"], one.id)
        for one in system.receiver.received
        if one.path == f"/{load.name}"
        for event in [orjson.loads(one.body)]
    }
    assert sorted((job, kind) for job, kind, _ in sent) == sorted(
        (job, f"job.{state}") for job, state in states.items()
    ), "an end was not sent, or with two ids"


async def _files_match_outputs(system: System) -> None:
    """Each output file has one record and its bytes. Other bytes are of runs that were repeated."""
    outputs = await system.rows(
        "SELECT job_id, output ->> 'file' AS file, output ->> 'sha256' AS sha256 FROM executions"
        " WHERE state = 'completed' AND model = 'flux'"
    )
    records = await system.rows("SELECT id, job_id, sha256 FROM files WHERE job_id IS NOT NULL")
    named = {(decode_id(FILE, row["file"]), row["job_id"], row["sha256"]) for row in outputs}
    recorded = {(row["id"], row["job_id"], row["sha256"].hex()) for row in records}
    assert outputs, "no job made a file"
    assert len(named) == len(outputs), "two outputs are one file"
    assert named == recorded, "the records of files differ from the outputs"


async def _files_are_stored(system: System, load: Load) -> None:
    """Each record has its bytes, each acknowledged upload a record; other bytes are removed after a day."""
    records = {_object_of(row): row for row in await system.rows(FILES)}
    uploads = {decode_id(FILE, file): checksum for file, checksum in load.uploads.items()}
    recorded = {row["id"]: row["sha256"].hex() for row in records.values()}
    assert uploads, "no job used an uploaded file"
    assert uploads.items() <= recorded.items(), "an acknowledged upload has no record"
    for name, row in records.items():
        data = await asyncio.to_thread((system.files / name).read_bytes)
        assert (len(data), sha256(data).digest()) == (row["size"], row["sha256"]), "a file has other bytes"

    async def only_recorded() -> bool:
        """Not at once: the aborted run of a cancelled job may still write."""
        await system.remove_orphans()
        found = await asyncio.to_thread(lambda: [path for path in system.files.rglob("*") if path.is_file()])
        return {str(path.relative_to(system.files)) for path in found} == {*records, OWNER_OBJECT}

    await until(only_recorded, "the file store has the recorded files and nothing else")


async def _storage_is_exact(system: System, load: Load) -> None:
    used: Counter[str] = Counter()
    for row in await system.rows(FILES):
        used[encode_id(USER, row["user_id"])] += row["size"]
    for me in await load.profiles():
        assert me["limits"]["storage_bytes"]["used"] == used[me["user_id"]], "the storage is miscounted"


def _object_of(row: asyncpg.Record) -> str:
    file = FileId(row["id"])
    return output_object_name(file) if row["job_id"] else object_name(UserId(row["user_id"]), file)


async def _states(system: System, load: Load) -> dict[UUID, str]:
    rows = await system.rows(
        "SELECT j.id, j.state FROM jobs j JOIN users u ON u.id = j.user_id WHERE u.name LIKE $1",
        f"{load.name}-%",
    )
    return {row["id"]: row["state"] for row in rows}


async def _each_execution_once(system: System) -> None:
    wrong = await system.rows(
        "SELECT j.id, j.total, count(e.*) AS recorded"
        " FROM jobs j LEFT JOIN executions e ON e.job_id = j.id AND e.state = 'completed'"
        " WHERE j.state = 'completed' GROUP BY j.id, j.total HAVING count(e.*) <> j.total"
    )
    assert wrong == [], "a completed job has not exactly its executions"


async def _runs_match_results(system: System, states: Mapping[UUID, str]) -> None:
    """No execution completes twice on a GPU, unless its router was killed, frozen or cut off."""
    runs = [call["request_id"] for call in system.gpu_calls() if call["outcome"] in ("completed", "empty")]
    finished = Counter(request for request in runs if decode_execution_id(request)[0] in states)
    rows = await system.rows(
        "SELECT job_id, stage, ordinal FROM executions"
        " WHERE state = 'completed' AND job_id = ANY ($1::uuid[])",
        list(states),
    )
    recorded = {encode_execution_id(JobId(row["job_id"]), row["stage"], row["ordinal"]) for row in rows}
    assert recorded <= set(finished), "a result was recorded that no GPU made"
    for request in set(finished) - recorded:
        job, _, _ = decode_execution_id(request)
        assert states[job] == "cancelled", f"the result of {request} was lost"
    twice = {request: runs for request, runs in finished.items() if runs > 1 + system.repetitions}
    assert twice == {}, "executions ran twice to completion"


async def _limits_were_kept(system: System) -> None:
    """By the GPUs' own clocks, except while a router was frozen: its backends went on with its runs. What was
    cancelled ends there a moment after its slot was given on."""
    rows = await system.rows("SELECT id FROM jobs WHERE state = 'cancelled'")
    cancelled = {row["id"] for row in rows}
    excess = [call for call in system.gpu_calls() if call["outcome"] == "refused"]
    calls = [call for call in system.gpu_calls() if call["outcome"] != "refused"]
    ending = [call for call in calls if decode_execution_id(call["request_id"])[0] in cancelled]
    group = [call for call in calls if call["dialect"] == "modal" and call not in ending]
    assert most_at_once(group, except_in=system.frozen_s) <= CAP, (
        "the routers exceeded the cap that they share"
    )
    unexplained = [
        call
        for call in excess
        if not any(_overlap(call, one) for one in ending)
        and not any(begin <= call["arrived"] <= end for begin, end in system.frozen_s)
    ]
    assert unexplained == [], "a GPU got more calls than it has slots"


def _overlap(call: Call, other: Call) -> bool:
    """Whether the other call had a slot of the same GPU when this one arrived."""
    ended = other["ended"]
    return bool(
        call["pid"] == other["pid"]
        and other["arrived"] <= call["arrived"]
        and (ended is None or call["arrived"] <= ended)
    )


async def check_restrictions(system: System, load: Load, restrictions: Sequence[Restriction]) -> None:
    """Nothing was started that a confirmed change of the configuration forbids."""
    rows = await system.rows("SELECT id FROM jobs WHERE state = 'cancelled'")
    cancelled = {row["id"] for row in rows}
    calls = [
        call
        for call in system.gpu_calls()
        if call["outcome"] != "refused" and decode_execution_id(call["request_id"])[0] not in cancelled
    ]
    for restriction in restrictions:
        assert any(sent >= restriction.since for sent in load.sent_at.values()), "no job has tested it"
        assert restriction.broken_by(calls, load) == [], restriction.what


async def _live_jobs(system: System) -> int:
    (row,) = await system.rows("SELECT count(*) AS n FROM jobs WHERE finished_at IS NULL")
    return int(row["n"])


async def _fewer_live(system: System, than: int) -> bool:
    return await _live_jobs(system) < than


async def _webhooks_are_sent(system: System) -> bool:
    (row,) = await system.rows("SELECT count(*) AS n FROM webhook_deliveries WHERE due_at IS NOT NULL")
    return int(row["n"]) == 0


async def _redis_is_empty(system: System) -> bool:
    async with system.redis() as redis:
        counters = [key async for key in redis.scan_iter("queue:*")]
        return not await redis.hlen("jobs:live") and counters == []
