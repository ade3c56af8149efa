"""The command line against a stub of the runner: requests, output and exit codes."""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from beacon_cli import app
from beacon_runner.http.openapi import DEMAND_EXAMPLE
from tests.integration.client.documents import ACCEPTED, AT, execution, job, summary
from tests.integration.client.runner_stub import RunnerStub, cut, event, problem, raw, stream

Beacon = Callable[..., Any]


@pytest.fixture
def beacon(served: RunnerStub, tmp_path: Path) -> Beacon:
    """Run `beacon …` with the credentials that `beacon up` would have written."""
    credentials = {"runner_url": served.url, "user_key": "user-key", "admin_key": "admin-key"}
    (tmp_path / "credentials.json").write_text(json.dumps(credentials), encoding="utf-8")
    environ = {"BEACON_HOME": str(tmp_path), "BEACON_RUNNER_URL": "", "BEACON_API_KEY": ""}

    def run(*arguments: str, stdin: str | None = None, **env: str) -> Any:
        return CliRunner().invoke(app, list(arguments), input=stdin, env={**environ, **env})

    return run


def sent(served: RunnerStub, route: str = "POST /api/v1/jobs") -> Any:
    (call,) = served.of(route)
    return orjson.loads(call.body)


def ok(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return result


def test_a_generation_from_flags(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    result = ok(
        beacon("submit", "-m", "flux", "-p", "a cat", "-r", "US", "--param", "seed=7", "--duration", "3")
    )
    assert "job_a" in result.stdout
    assert "beacon watch job_a" in result.stdout
    job_sent = sent(served)
    assert {name: job_sent[name] for name in ("kind", "model", "prompt", "region", "params", "duration")} == {
        "kind": "generation",
        "model": "flux",
        "prompt": "a cat",
        "region": "US",
        "params": {"seed": 7},
        "duration": 3.0,
    }
    assert served.calls[0].headers["authorization"] == "Bearer user-key"


def test_a_matrix_from_flags(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    flags = [
        "-q",
        "Why?",
        "-q",
        "sky=Is 1=1?",
        "-m",
        "a",
        "-m",
        "b",
        "-r",
        "US",
        "-r",
        "EU",
        "--pinned",
        "--name",
        "n",
    ]
    ok(beacon("submit", *flags))
    job_sent = sent(served)
    assert job_sent["questions"] == [{"id": "q1", "prompt": "Why?"}, {"id": "sky", "prompt": "Is 1=1?"}]
    assert (job_sent["models"], job_sent["regions"]) == (["a", "b"], ["US", "EU"])
    assert (job_sent["failover"], job_sent["name"]) == ("pinned", "n")


def test_a_pipeline_from_flags(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    ok(beacon("submit", "-f", "full_pipeline", "-i", "prompt=a city", "-i", "size=3"))
    assert sent(served)["input"] == {"prompt": "a city", "size": 3}


@pytest.mark.parametrize("way", ["file", "dash", "pipe"])
def test_a_job_from_a_file_or_from_standard_input(
    served: RunnerStub, beacon: Beacon, tmp_path: Path, way: str
) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    text = json.dumps({"kind": "generation", "model": "flux", "prompt": "cät"})
    path = tmp_path / "job.json"
    path.write_text(text, encoding="utf-8")
    arguments = {"file": [str(path)], "dash": ["-"], "pipe": []}[way]
    ok(beacon("submit", *arguments, stdin=None if way == "file" else text))
    assert sent(served)["prompt"] == "cät"


def test_a_list_is_a_batch(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs/batch", {"jobs": [ACCEPTED, ACCEPTED | {"job_id": "job_b"}]})
    one = {"kind": "generation", "model": "flux", "prompt": "a cat"}
    result = ok(beacon("submit", "-", "--json", stdin=json.dumps([one, one])))
    assert [accepted["job_id"] for accepted in json.loads(result.stdout)] == ["job_a", "job_b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-p", "x"], "needs one --model"),
        (["-p", "x", "-q", "y", "-m", "m"], "give one"),
        (["-m", "flux"], "the job has no input"),
        (["-f", "x", "-i", "oops"], "not of the form name=value"),
        (["-p", "x", "-m", "m", "-r", "US", "-r", "EU"], "several need --question"),
        (["nowhere.json"], "No such file"),
        (["-q", "Why?", "-m", "m"], "regions"),
    ],
)
def test_invalid_input_exits_with_2_and_the_reason(
    served: RunnerStub, beacon: Beacon, arguments: Sequence[str], said: str
) -> None:
    result = beacon("submit", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert served.calls == []


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', ""])
def test_input_that_is_no_job_is_refused(beacon: Beacon, text: str) -> None:
    assert beacon("submit", "-", stdin=text).exit_code == 2


def test_jobs_as_table_and_as_json(served: RunnerStub, beacon: Beacon) -> None:
    long_id = "job_01k9x7p4f8q2r6s0t3v5w7y9za"
    served.on("GET /api/v1/jobs", {"jobs": [summary(long_id, name="[red]bias")], "next_cursor": None})
    shown = ok(beacon("jobs", "--status", "queued")).stdout
    assert long_id in shown
    assert "[red]bias" in shown
    assert served.calls[0].query["status"] == "queued"
    assert json.loads(ok(beacon("jobs", "--json")).stdout)[0]["job_id"] == long_id


def test_a_list_has_at_most_the_requested_number_of_jobs(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs", {"jobs": [summary(f"job_{n}") for n in range(3)], "next_cursor": "more"})
    assert len(json.loads(ok(beacon("jobs", "-n", "4", "--json")).stdout)) == 4
    assert len(served.calls) == 2


def matrix(status: str = "completed") -> dict[str, Any]:
    cells = [
        execution(0, state="completed", output={"text": "blue"}, attempt=1),
        execution(1, region="EU", state="failed", attempt=3, failure=FAILURE),
        execution(2, item="q2", state="completed", actual_region="ASIA", output=""),
    ]
    return job(kind="matrix", status=status, executions=cells)


FAILURE = {"code": "timeout", "stage": "run", "retryable": True, "message": "took too long"}


def test_one_job_with_its_grid_and_its_answers(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs/job_a", matrix())
    shown = ok(beacon("job", "job_a")).stdout
    for mark in ("✓", "✗", "→ASIA", "q2", "EU"):
        assert mark in shown
    answers = ok(beacon("job", "job_a", "--answers")).stdout
    for text in ("blue", "timeout: took too long", "US → ASIA", "(empty)", "exe_a.0.1"):
        assert text in answers


@pytest.mark.parametrize(
    ("status", "code"), [(404, 3), (401, 4), (403, 4), (409, 7), (402, 6), (429, 6), (500, 1), (422, 2)]
)
def test_a_refusal_sets_the_exit_code_and_gives_advice(
    served: RunnerStub, beacon: Beacon, status: int, code: int
) -> None:
    served.on("POST /api/v1/jobs/job_a/skip", problem(status, "some_code", "the reason"))
    result = beacon("skip", "job_a")
    assert result.exit_code == code
    assert result.stdout == ""
    assert "the reason (some_code)" in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_errors_are_json_too(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs/job_a", problem(404, "unknown_job", "no such job"))
    result = beacon("job", "job_a", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stderr)["code"] == "unknown_job"


def test_wrong_fields_are_listed(served: RunnerStub, beacon: Beacon) -> None:
    wrong = [{"field": "models[0]", "message": "there is no model x", "code": "unknown_model"}]
    served.on("POST /api/v1/jobs", problem(422, "invalid_field", "1 field is wrong", errors=wrong))
    result = beacon("submit", "-m", "x", "-p", "y")
    assert result.exit_code == 2
    assert "models[0]: there is no model x" in result.stderr


def test_a_batch_beyond_the_limit_is_advised_to_be_split(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    served.on("POST /api/v1/jobs/batch", problem(422, "batch_exceeds_limit", "you may have 5 pending jobs"))
    jobs = tmp_path / "jobs.json"
    jobs.write_text('[{"kind": "generation", "model": "flux", "prompt": "a cat"}]', encoding="utf-8")
    result = beacon("submit", str(jobs))
    assert result.exit_code == 2
    assert "smaller batches" in result.stderr
    assert len(served.calls) == 1, "to repeat it is of no use"


def test_an_unreachable_runner_exits_with_5(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs/job_a/resume", cut)
    result = beacon("resume", "job_a")
    assert result.exit_code == 5
    assert "beacon up" in result.stderr


def test_the_key_is_read_from_the_environment(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs", {"jobs": [], "next_cursor": None})
    ok(beacon("jobs", BEACON_API_KEY="mine"))
    ok(beacon("--admin", "jobs"))
    ok(beacon("jobs"))
    keys = [call.headers["authorization"] for call in served.calls]
    assert keys == ["Bearer mine", "Bearer admin-key", "Bearer user-key"]


@pytest.mark.parametrize(
    ("status", "last", "code"), [("completed", "JOB_COMPLETE", 0), ("partial", "JOB_PARTIAL", 1)]
)
def test_watch_prints_each_event_and_exits_by_the_final_state(
    served: RunnerStub, beacon: Beacon, status: str, last: str, code: int
) -> None:
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_QUEUED"), event(2, last)))
    served.on("GET /api/v1/jobs/job_a", matrix(status))
    result = beacon("watch", "job_a")
    assert result.exit_code == code
    assert "JOB_QUEUED" in result.stdout
    assert last in result.stdout
    assert "blue" in result.stdout


def test_watch_as_json_is_one_event_a_line(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_QUEUED"), event(2, "JOB_COMPLETE")))
    served.on("GET /api/v1/jobs/job_a", matrix())
    lines = ok(beacon("watch", "job_a", "--json")).stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_submit_can_watch(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_FAILED")))
    served.on("GET /api/v1/jobs/job_a", matrix("failed"))
    assert beacon("submit", "-m", "flux", "-p", "x", "-w").exit_code == 1


def test_why_prints_the_summary(served: RunnerStub, beacon: Beacon) -> None:
    wait = {
        "execution_id": "exe_a.0.0",
        "model": "flux",
        "region": "US",
        "state": "queued",
        "position": 4,
        "eta": {"p50_s": 12.0, "p90_s": 70.0},
        "waiting_for": "a slot of us-1",
    }
    document = {
        "job_id": "job_a",
        "status": "processing",
        "summary": "It waits for a GPU in US.",
        "reasons": ["4 requests of higher tiers are ahead"],
        "executions": [wait],
    }
    served.on("GET /api/v1/jobs/job_a/why", document)
    shown = ok(beacon("why", "job_a")).stdout
    for text in ("It waits for a GPU in US.", "4 requests", "a slot of us-1", "12 s, at most 1 min 10 s"):
        assert text in shown


def test_cancel_and_retry(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs/job_a/cancel", {})
    served.on("GET /api/v1/jobs/job_a", job(status="cancelled"))
    assert "cancelled" in ok(beacon("cancel", "job_a")).stdout
    served.on("POST /api/v1/executions/exe_a.0.1/retry-question", {})
    served.on("GET /api/v1/executions/exe_a.0.1", execution(1, attempts=[]))
    assert "exe_a.0.1" in ok(beacon("retry", "exe_a.0.1")).stdout
    assert ok(beacon("execution", "exe_a.0.1", "--json"))


STATS = {
    "main": 12,
    "retry": 1,
    "dead": 2,
    "leases": 3,
    "outbox": {"pending": 0, "lag_s": 0.0},
    "oldest_age_s": 61.0,
    "classes": [{"name": "low", "waiting": 12, "front": 0, "paused": True}],
    "lanes": [{"class": "low", "lane": "u1", "pending": 12, "running": 1}],
}


CHANGE = {
    "revision": 8,
    "applied": True,
    "differences": [{"key": "backends.us-1.drain", "before": False, "after": True}],
    "stranded": [],
    "restart_needed": [],
}
REVISION = {"revision": 7, "created_at": AT, "actor": {"name": "ada"}, "comment": "half the cap"}


def newest(revision: int, **router: Any) -> Any:
    routers = [{"url": "http://router", "revision": revision, **router}]
    return {**REVISION, "revision": revision, "document": DOCUMENT, "routers": routers}


DOCUMENT = {"backends": {"gpu": {"dialect": "openai", "url": "http://gpu/v1", "models": ["m"], "slots": 2}}}


def test_a_file_is_compared_and_applied_after_a_confirmation(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[backends.gpu]\ndialect = "openai"\nurl = "http://gpu/v1"\nmodels = ["m"]\nslots = 2\n',
        encoding="utf-8",
    )
    planned = CHANGE | {"revision": 7, "applied": False}
    served.on("GET /admin/config", newest(7), newest(7), newest(7), newest(8))
    served.on("PUT /admin/config", planned)
    compared = beacon("config", "diff", str(file))
    assert compared.exit_code == 1
    assert "~ backends.us-1.drain false → true" in compared.stdout
    assert "Give --yes" in beacon("config", "apply", str(file)).stderr
    assert all(call.query == {"dry_run": "true"} for call in served.of("PUT /admin/config"))
    served.answers["PUT /admin/config"].clear()
    served.on("PUT /admin/config", planned, CHANGE)
    applied = ok(beacon("config", "apply", str(file), "--yes", "-m", "why"))
    assert "revision 8, applied by http://router" in applied.stdout
    call = served.of("PUT /admin/config")[-1]
    assert (call.query, call.headers["if-match"]) == ({"comment": "why"}, '"7"')
    assert orjson.loads(call.body) == DOCUMENT
    assert {call.headers["authorization"] for call in served.calls} == {"Bearer admin-key"}


def test_the_file_of_the_running_system_is_the_default(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    known = json.loads((tmp_path / "credentials.json").read_text(encoding="utf-8"))
    (tmp_path / "credentials.json").write_text(
        json.dumps(known | {"config_path": str(file)}), encoding="utf-8"
    )
    served.on("GET /admin/config", newest(7))
    served.on("PUT /admin/config", CHANGE | {"applied": False, "differences": []})
    ok(beacon("config", "diff", BEACON_CONFIG=""))
    assert sent(served, "PUT /admin/config") == DOCUMENT


def test_an_invalid_file_is_not_sent(served: RunnerStub, beacon: Beacon, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    for text, said in (("[backends.gpu]\nslots = -1\n", "backends.gpu.slots"), ("[", "is not valid TOML")):
        file.write_text(text, encoding="utf-8")
        result = beacon("config", "apply", str(file), "--yes")
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert served.calls == []


def test_equal_configurations_and_conflicts_have_their_exit_codes(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    served.on("GET /admin/config", newest(7))
    same = CHANGE | {"revision": 7, "applied": False, "differences": []}
    served.on("PUT /admin/config", same)
    ok(beacon("config", "diff", str(file)))
    assert "nothing changes" in ok(beacon("config", "apply", str(file))).stdout
    stranded = [{"model": "m", "region": "US", "executions": 3}, {"job_class": "high", "jobs": 2}]
    served.answers["PUT /admin/config"].clear()
    served.on(
        "PUT /admin/config",
        CHANGE | {"applied": False, "stranded": stranded},
        problem(412, "config_changed", "the newest revision is 9", revision=9),
    )
    changed = beacon("config", "apply", str(file), "--yes")
    assert changed.exit_code == 7
    assert "3 unfinished executions of m in US would fail" in changed.stderr
    assert "2 unfinished jobs of class high would wait" in changed.stderr


def test_a_router_that_refuses_a_revision_is_named(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/config", newest(7, refused=8, errors=["KEY is not set"]))
    served.on("POST /admin/backends/gpu%2F1/drain", CHANGE)
    served.on("POST /admin/backends/gpu/1/drain", CHANGE)
    refused = beacon("backends", "drain", "gpu/1")
    assert refused.exit_code == 1
    assert "http://router cannot apply revision 8 and stays on 7: KEY is not set" in refused.stderr


def test_revisions_are_listed_shown_and_rolled_back(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/config", newest(8))
    served.on("GET /admin/config/revisions", {"revisions": [REVISION], "next_before": None})
    document = {**DOCUMENT, "skip_prices": [{"up_to_s": 10, "price": 1}, {"up_to_s": None, "price": 2}]}
    served.on("GET /admin/config/revisions/7", {**REVISION, "document": document})
    served.on("POST /admin/config/rollback", CHANGE)
    listed = ok(beacon("config", "history")).stdout
    assert "half the cap" in listed
    assert "http://router" in listed
    shown = tomllib.loads(ok(beacon("config", "show", "7")).stdout)
    assert shown == {**DOCUMENT, "skip_prices": [{"up_to_s": 10, "price": 1}, {"price": 2}]}
    assert json.loads(ok(beacon("config", "show", "--json")).stdout)["revision"] == 8
    ok(beacon("config", "rollback", "7", "--yes", "--force"))
    calls = served.of("POST /admin/config/rollback")
    assert [call.query for call in calls] == [{"dry_run": "true"}, {"force": "true"}]


def test_backends_and_models_are_changed(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/config", newest(8))
    for route in (
        "POST /admin/backends",
        "PATCH /admin/backends/gpu",
        "DELETE /admin/backends/gpu",
        "POST /admin/backends/gpu/drain",
        "POST /admin/backends/gpu/resume",
        "POST /admin/models/m/pause",
        "POST /admin/models/m/resume",
    ):
        served.on(route, CHANGE)
    backend = {"name": "gpu", "region": "US", "dialect": "openai", "url": "http://gpu/v1", "models": ["m"]}
    shown = backend | {"slots": 2, "drain": True, "simulated": False, "busy": 0, "state": "drained"}
    busy = shown | {"busy": 1, "state": "draining"}
    served.on(
        "GET /admin/backends", {"revision": 8, "backends": [busy]}, {"revision": 8, "backends": [shown]}
    )
    assert "draining" in ok(beacon("backends")).stdout
    flags = ["--url", "http://gpu/v1", "--dialect", "openai", "-m", "m", "-r", "US", "--set", "files=url"]
    ok(beacon("backends", "add", "gpu", *flags, "--yes"))
    assert orjson.loads(served.of("POST /admin/backends")[-1].body) == backend | {"files": "url"}
    ok(beacon("backends", "change", "gpu", "--slots", "0", "--unset", "group", "--yes"))
    assert orjson.loads(served.of("PATCH /admin/backends/gpu")[-1].body) == {"slots": 0, "group": None}
    assert beacon("backends", "change", "gpu", "--yes").exit_code == 2
    assert "gpu is drained" in ok(beacon("backends", "drain", "gpu", "--wait")).stdout
    ok(beacon("backends", "resume", "gpu"))
    assert beacon("backends", "remove", "gpu").exit_code == 2
    ok(beacon("backends", "remove", "gpu", "--yes"))
    ok(beacon("models", "pause", "m"))
    ok(beacon("models", "resume", "m"))


def test_the_demand_is_shown_with_the_administrators_key(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/demand", DEMAND_EXAMPLE)
    shown = ok(beacon("demand", "-m", "flux", "--region", "US", "--target-wait", "30")).stdout
    (line,) = (line for line in shown.splitlines() if "flux" in line)
    assert [part for part in line.split() if part.isdigit()][:2] == ["31", "2"]
    assert "6 min 12 s" in line
    (call,) = served.of("GET /admin/demand")
    assert call.query == {"model": "flux", "region": "US", "target_wait_s": "30.0"}
    assert call.headers["authorization"] == "Bearer admin-key"
    assert json.loads(ok(beacon("demand", "--json")).stdout)["total"]["slots_needed"] == 7


def test_queues_are_shown_paused_and_resumed_with_the_administrators_key(
    served: RunnerStub, beacon: Beacon
) -> None:
    served.on("GET /admin/runtime/stats", STATS)
    served.on("POST /admin/queues/low/pause", {})
    served.on("POST /admin/queues/low/resume", {})
    shown = ok(beacon("queues")).stdout
    for text in ("12", "paused", "u1", "1 min 1 s"):
        assert text in shown
    assert json.loads(ok(beacon("queues", "--json")).stdout)["lanes"][0]["class"] == "low"
    ok(beacon("queues", "pause", "low"))
    ok(beacon("queues", "resume", "low"))
    assert beacon("queues", "pause", "lowest").exit_code == 2
    assert {call.headers["authorization"] for call in served.calls} == {"Bearer admin-key"}


LETTER = {"job_id": "job_a", "reason": "attempts used up", "failure": FAILURE, "died_at": AT, "attempt": 3}


def test_dead_letters_are_listed_shown_requeued_and_purged(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/queue-dead", {"dead_letters": [LETTER], "total": 5, "next_cursor": None})
    served.on("POST /admin/queue-dead/requeue", {"count": 1})
    served.on("POST /admin/queue-dead/purge", {"count": 5})
    shown = ok(beacon("dead", "list")).stdout
    assert "attempts used up" in shown
    assert "and 4 more" in shown
    assert "took too long" in ok(beacon("dead", "show", "job_a")).stdout
    assert beacon("dead", "show", "job_b").exit_code == 3
    assert "1 requeued" in ok(beacon("dead", "requeue", "job_a")).stdout
    assert sent(served, "POST /admin/queue-dead/requeue") == {"job_ids": ["job_a"], "all": False}
    assert "5 purged" in ok(beacon("dead", "purge", "--all", stdin="y\n")).stdout
    assert sent(served, "POST /admin/queue-dead/purge") == {"all": True}


def test_an_unconfirmed_purge_changes_nothing(served: RunnerStub, beacon: Beacon) -> None:
    assert beacon("dead", "purge", "--all", stdin="n\n").exit_code == 1
    assert beacon("dead", "purge", "--yes").exit_code == 2
    assert beacon("dead", "requeue", "job_a", "--all").exit_code == 2
    assert served.calls == []


USER = {"id": "user_1", "name": "ada", "tier": "free", "credit": 3}


def test_users_and_keys(served: RunnerStub, beacon: Beacon) -> None:
    key = {"id": "key_1", "user_id": "user_1", "hint": "bk_ab", "scopes": ["user"], "created_at": AT}
    served.on("GET /admin/users", {"users": [USER], "next_cursor": None})
    served.on("POST /admin/users", USER | {"key": "bk_secret"})
    served.on("POST /admin/users/user_1/credit", {"balance": 13})
    served.on("POST /admin/users/user_1", USER | {"tier": "premium"})
    served.on("GET /admin/users/user_1/keys", {"keys": [key]})
    served.on("POST /admin/users/user_1/keys", key | {"key": "bk_other"})
    served.on("DELETE /admin/users/user_1/keys/key_1", {})
    assert "ada" in ok(beacon("users", "list")).stdout
    assert "bk_secret" in ok(beacon("users", "add", "ada", "--tier", "free")).stdout
    ok(beacon("users", "credit", "ada", "10", "--note", "gift"))
    assert sent(served, "POST /admin/users/user_1/credit") == {"amount": 10, "note": "gift"}
    assert "premium" in ok(beacon("users", "tier", "ada", "premium")).stdout
    ok(beacon("users", "weight", "ada", "2.5"))
    assert orjson.loads(served.of("POST /admin/users/user_1")[-1].body) == {"weight": 2.5}
    assert beacon("users", "weight", "ada", "0").exit_code == 2
    assert "bk_ab" in ok(beacon("keys", "list", "ada")).stdout
    assert "bk_other" in ok(beacon("keys", "add", "user_1", "--scope", "user")).stdout
    assert "bk_other" in ok(beacon("keys", "rotate", "ada", "key_1")).stdout
    assert len(served.of("DELETE /admin/users/user_1/keys/key_1")) == 1
    assert beacon("keys", "rotate", "ada", "key_2").exit_code == 3
    ok(beacon("keys", "revoke", "ada", "key_1"))
    assert beacon("users", "tier", "bob", "premium").exit_code == 3


def test_catalogue(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/models", {"models": [{"id": "flux", "regions": ["US", "EU"]}]})
    served.on(
        "GET /api/v1/features",
        {"features": [{"name": "f", "steps": [{"name": "a", "model": "m"}, {"name": "b", "model": "m"}]}]},
    )
    served.on("GET /api/v1/regions", {"regions": [{"name": "US"}], "groups": {}})
    served.on("GET /api/v1/skip-pricing", {"prices": [{"up_to_s": 10, "price": 1}, {"price": 15}]})
    me = {
        "user_id": "user_1",
        "name": "ada",
        "tier": "free",
        "priority": "low",
        "scopes": ["user"],
        "credit": 2,
        "executions_per_job": 100,
    }
    served.on("GET /api/v1/me", me | {"limits": {"pending_jobs": {"limit": 2, "used": 1, "left": 1}}})
    assert "US, EU" in ok(beacon("models")).stdout
    assert "a → b" in ok(beacon("features")).stdout
    assert "no router responds" in ok(beacon("regions")).stdout
    prices = ok(beacon("prices")).stdout
    assert prices.startswith("duration of the job"), "the price depends on the duration, not on the wait"
    assert "longer" in prices
    limits = ok(beacon("me")).stdout
    assert "1 of 2 left" in limits
    assert re.search(r"executions per job +100", limits)


def test_an_invalid_credentials_file_is_named(beacon: Beacon, tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text("{", encoding="utf-8")
    result = beacon("jobs")
    assert result.exit_code == 2
    assert "credentials.json" in result.stderr


def test_the_shell_completes_commands_and_jobs(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs", {"jobs": [summary("job_1a"), summary("job_2b")], "next_cursor": None})

    def complete(line: str) -> str:
        words = {"_BEACON_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        return str(beacon(**words).stdout)

    assert "submit" in complete("beacon sub")
    assert complete("beacon watch job_2").split() == ["job_2b"]
    served.answers.clear()
    assert complete("beacon watch job_2").split() == []


def test_disabling_a_user_holds_or_cancels_the_jobs(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/users", {"users": [USER], "next_cursor": None})
    served.on("POST /admin/users/user_1", USER)
    ok(beacon("users", "disable", "ada"))
    ok(beacon("users", "disable", "ada", "--cancel-jobs"))
    sent_bodies = [orjson.loads(call.body) for call in served.of("POST /admin/users/user_1")]
    assert [body["jobs"] for body in sent_bodies] == ["hold", "cancel"]


def test_the_jobs_of_one_user(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /admin/users", {"users": [USER], "next_cursor": None})
    served.on("GET /api/v1/jobs", {"jobs": [summary() | {"user_id": "user_1"}], "next_cursor": None})
    assert "user_1" in ok(beacon("jobs", "--user", "ada")).stdout
    (call,) = served.of("GET /api/v1/jobs")
    assert (call.query["user"], call.headers["authorization"]) == ("user_1", "Bearer admin-key")


FILE = {
    "id": "file_a",
    "name": "cat.png",
    "content_type": "image/png",
    "bytes": 2_500_000,
    "sha256": "0" * 64,
    "created_at": AT,
    "url": "/api/v1/files/file_a/content",
}


def test_files_are_uploaded_listed_downloaded_and_deleted(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    served.on("POST /api/v1/files", FILE)
    served.on("GET /api/v1/files", {"files": [FILE], "next_cursor": None})
    content = orjson.dumps({"stands": "for the bytes"})
    served.on(
        "GET /api/v1/files/file_a", FILE | {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    )
    served.on("GET /api/v1/files/file_a/content", {"stands": "for the bytes"})
    served.on("POST /api/v1/files/file_a/url", {"url": "/files/file_a?expires=1", "expires_at": AT})
    served.on("DELETE /api/v1/files/file_a", {})
    source, target = tmp_path / "cat.png", tmp_path / "copy.png"
    source.write_bytes(b"image")
    assert "file_a" in ok(beacon("files", "upload", str(source))).stdout
    (call,) = served.of("POST /api/v1/files")
    assert (call.body, call.headers["x-file-name"]) == (b"image", "cat.png")
    assert "2.5 MB" in ok(beacon("files", "list")).stdout
    ok(beacon("files", "download", "file_a", "--to", str(target)))
    assert target.read_bytes() == content
    ok(beacon("files", "download", "file_a", "--to", str(tmp_path)))
    assert source.read_bytes() == content
    assert ok(beacon("files", "url", "file_a")).stdout.strip() == f"{served.url}/files/file_a?expires=1"
    assert json.loads(ok(beacon("files", "delete", "file_a", "--json")).stdout) == {"deleted": ["file_a"]}


@pytest.mark.parametrize(
    ("name", "local"), [("..", "file_a"), ("...", "file_a"), (".bashrc", "bashrc"), ("../a b.png", "a b.png")]
)
def test_the_name_of_a_file_stays_in_the_folder_and_is_not_hidden(
    served: RunnerStub, beacon: Beacon, tmp_path: Path, name: str, local: str
) -> None:
    content = orjson.dumps({"stands": "for the bytes"})
    of_content = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    served.on("GET /api/v1/files/file_a", FILE | of_content | {"name": name})
    served.on("GET /api/v1/files/file_a/content", {"stands": "for the bytes"})
    folder = tmp_path / "folder"
    folder.mkdir()
    before = set(tmp_path.iterdir())
    ok(beacon("files", "download", "file_a", "--to", str(folder)))
    assert [path.name for path in folder.iterdir()] == [local]
    assert set(tmp_path.iterdir()) == before


def test_several_files_and_standard_input_are_uploaded(
    served: RunnerStub, beacon: Beacon, tmp_path: Path
) -> None:
    served.on("POST /api/v1/files", FILE)
    for name in ("one", "two"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    ok(beacon("files", "upload", str(tmp_path / "one"), str(tmp_path / "two")))
    ok(beacon("files", "upload", "-", "--name", "piped.txt", stdin="text"))
    calls = served.of("POST /api/v1/files")
    assert [(call.headers["x-file-name"], call.body) for call in calls] == [
        ("one", b"one"),
        ("two", b"two"),
        ("piped.txt", b"text"),
    ]
    assert beacon("files", "upload", str(tmp_path / "three")).exit_code == 2


def test_a_job_refers_to_uploaded_files(served: RunnerStub, beacon: Beacon, tmp_path: Path) -> None:
    served.on("POST /api/v1/files", FILE)
    served.on("POST /api/v1/jobs", ACCEPTED)
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"photo")
    ok(
        beacon(
            *("submit", "-m", "editor", "-p", "at night", "-i", "strength=0.5"),
            *("--file", f"image=@{photo}", "--file", "mask=file_b"),
        )
    )
    assert served.of("POST /api/v1/files")[0].body == b"photo"
    assert sent(served)["input"] == {
        "strength": 0.5,
        "image": {"file": "file_a"},
        "mask": {"file": "file_b"},
    }


def test_a_generation_without_a_prompt_has_an_input(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    ok(beacon("submit", "-m", "upscaler", "--file", "image=file_b"))
    assert sent(served)["input"] == {"image": {"file": "file_b"}}
    assert sent(served).get("prompt") is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "flux", "-p", "x", "--file", "image"),
        ("-m", "flux", "-p", "x", "--file", "image=@/nowhere.png"),
        ("-m", "flux", "-p", "x", "--file", "image=photo.png"),
        ("-m", "flux", "-r", "US", "-q", "Why?", "--file", "image=file_b"),
    ],
)
def test_unusable_files_are_refused_before_anything_is_sent(
    served: RunnerStub, beacon: Beacon, arguments: tuple[str, ...]
) -> None:
    result = beacon("submit", *arguments)
    assert result.exit_code == 2
    assert "file" in result.output
    assert served.calls == []


def test_the_files_of_a_job_are_saved_once(served: RunnerStub, beacon: Beacon, tmp_path: Path) -> None:
    contents = {f"file_{number}": b"%d" % number * 1_000 for number in range(3)}
    executions = [
        execution(number) | {"item": "../q", "state": "completed", "output": reference(name, content)}
        for number, (name, content) in enumerate(contents.items())
    ]
    served.on("GET /api/v1/jobs/job_a/executions", {"executions": executions, "next_cursor": None})
    for name, content in contents.items():
        served.on(f"GET /api/v1/files/{name}/content", raw(content))
    saved = json.loads(ok(beacon("job", "job_a", "--save", str(tmp_path / "out"), "--json")).stdout)
    assert {Path(one["path"]).parent for one in saved} == {tmp_path / "out"}
    assert [Path(one["path"]).read_bytes() for one in saved] == list(contents.values())
    Path(saved[1]["path"]).write_bytes(b"damaged")
    again = json.loads(ok(beacon("job", "job_a", "--save", str(tmp_path / "out"), "--json")).stdout)
    assert [one["downloaded"] for one in again] == [False, True, False]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        Path(one["path"]).name for one in saved
    )


def reference(file_id: str, content: bytes) -> dict[str, object]:
    return {
        "file": file_id,
        "content_type": "image/png",
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
    }


def test_usage_is_grouped_by_day_by_default(served: RunnerStub, beacon: Beacon) -> None:
    row = {
        "period": "2026-03-01T00:00:00Z",
        "model": "flux",
        "runs": 3,
        "failed": 1,
        "queue_seconds": 1.5,
        "load_seconds": 2,
        "gpu_seconds": 1234.5,
        "tokens_in": 10,
        "tokens_out": 20,
        "output_bytes": 0,
    }
    report = {"start": AT, "end": AT, "rows": [row]}
    served.on("GET /api/v1/usage", report)
    served.on("GET /admin/usage", report)
    shown = ok(beacon("usage")).stdout
    assert "2026-03-01" in shown
    assert "1,234.5" in shown
    (call,) = served.of("GET /api/v1/usage")
    assert call.query["group_by"] == "day"
    assert "flux" in ok(beacon("usage", "--by", "model", "--user", "user_1")).stdout
    (call,) = served.of("GET /admin/usage")
    assert (call.query["user"], call.headers["authorization"]) == ("user_1", "Bearer admin-key")


OPERATION = {
    "operation_id": "op_1",
    "action": "cancel",
    "state": "running",
    "matched": 2,
    "changed": 1,
    "created_at": AT,
}


def test_jobs_are_listed_by_filters(served: RunnerStub, beacon: Beacon) -> None:
    served.on("GET /api/v1/jobs", {"jobs": [], "next_cursor": None})
    ok(beacon("jobs", "--tag", "old", "--metadata", "a=b=c", "--name", "bias", "--before", "2026-01-02"))
    query = served.calls[0].query
    assert (query["tag"], query["metadata"], query["name"]) == ("old", "a=b=c", "bias")
    assert query["created_before"] == "2026-01-02T00:00:00+00:00"


def test_many_jobs_are_cancelled_and_the_progress_is_followed(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs/bulk", OPERATION)
    served.on("GET /api/v1/operations/op_1", OPERATION, OPERATION | {"state": "finished", "changed": 2})
    shown = ok(beacon("bulk", "cancel", "--tag", "old", "--status", "queued", "--yes")).stdout
    assert "finished" in shown
    body = sent(served, "POST /api/v1/jobs/bulk")
    assert (body["action"], body["filter"]["tag"], body["filter"]["status"]) == (
        "cancel",
        ["old"],
        ["queued"],
    )


@pytest.mark.parametrize(
    "arguments", [("cancel", "--yes"), ("cancel", "job_1", "--tag", "x", "--yes"), ("cancel", "--tag", "x")]
)
def test_a_bulk_command_needs_one_selection_and_a_confirmation(
    served: RunnerStub, beacon: Beacon, arguments: tuple[str, ...]
) -> None:
    assert beacon("bulk", *arguments).exit_code == 2
    assert served.calls == []


def test_results_are_exported_to_a_file(served: RunnerStub, beacon: Beacon, tmp_path: Path) -> None:
    served.on("GET /api/v1/jobs/job_1/results.csv", {"a": 1})
    target = tmp_path / "results.csv"
    ok(beacon("export", "job_1", "--format", "csv", "-o", str(target)))
    assert json.loads(target.read_bytes()) == {"a": 1}
    assert not list(tmp_path.glob("*.part"))


def test_jobs_are_deleted_after_a_confirmation(served: RunnerStub, beacon: Beacon) -> None:
    served.on("DELETE /api/v1/jobs/job_1", {})
    assert beacon("delete", "job_1").exit_code == 2
    assert "deleted job_1" in ok(beacon("delete", "job_1", "--yes")).stdout
    assert len(served.calls) == 1


def test_a_job_is_submitted_with_labels_and_times(served: RunnerStub, beacon: Beacon) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    options = ("--tag", "a", "--metadata", "k=v", "--not-before", "2030-01-02T03:04:05", "--wait-for-limit")
    ok(beacon("submit", "-m", "flux", "-p", "cat", *options))
    body = sent(served)
    assert (body["tags"], body["metadata"], body["on_limit"]) == (["a"], {"k": "v"}, "wait")
    assert body["not_before"].startswith("2030-01-02T03:04:05")
