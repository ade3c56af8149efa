"""Tags, metadata and the filters of the list of jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.runner_api.harness import GENERATION, MATRIX, PIPELINE, ApiHarness, Caller

LABELLED = GENERATION | {"tags": ["nightly", "Straße 1"], "metadata": {"team": "blue", "run": "a=b"}}


async def listed(caller: Caller, **query: Any) -> list[str]:
    """The ids of all pages, two jobs per page."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await caller.get("/api/v1/jobs", **{"limit": 2, **query, **cursor})
        found += [job["job_id"] for job in page["jobs"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


async def test_tags_and_metadata_are_shown(anna: Caller) -> None:
    job = await anna.job(await anna.submit(LABELLED))
    assert (job["tags"], job["metadata"]) == (LABELLED["tags"], LABELLED["metadata"])
    (shown,) = (await anna.get("/api/v1/jobs"))["jobs"]
    assert (shown["tags"], shown["metadata"]) == (LABELLED["tags"], LABELLED["metadata"])


async def test_repeated_tags_collapse_to_one(anna: Caller) -> None:
    """The use of the job would otherwise count twice for the tag."""
    job = await anna.job(await anna.submit(GENERATION | {"tags": ["b", "a", "b"]}))
    assert job["tags"] == ["b", "a"]


async def test_every_filter_finds_its_jobs_newest_first(api: ApiHarness, anna: Caller) -> None:
    labelled = await anna.submit(LABELLED)
    matrix = await anna.submit(MATRIX | {"models": ["llama3.2-1b", "mistral-7b"], "regions": ["EU"]})
    named = [await anna.submit(GENERATION | {"name": f"Bias {number}"}) for number in range(3)]
    pipeline = await anna.submit(PIPELINE | {"tags": ["nightly"]})
    plain = await anna.submit(GENERATION)
    bert = await api.user("bert")
    await bert.submit(LABELLED | {"name": "Bias of another user"})
    everything = [plain, pipeline, *reversed(named), matrix, labelled]
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({}, everything),
        ({"tag": "nightly"}, [pipeline, labelled]),
        ({"tag": ["nightly", "Straße 1"]}, [labelled]),
        ({"tag": "unknown"}, []),
        ({"metadata": "team=blue"}, [labelled]),
        ({"metadata": ["team=blue", "run=a=b"]}, [labelled]),
        ({"metadata": "team=red"}, []),
        ({"tag": "nightly", "metadata": "team=blue"}, [labelled]),
        ({"tag": "nightly", "kind": "pipeline"}, [pipeline]),
        ({"model": "flux"}, [plain, *reversed(named), labelled]),
        ({"model": "mistral-7b"}, [matrix]),
        ({"name": "bias"}, [*reversed(named), matrix]),
        ({"name": "Bias 1"}, [named[1]]),
        ({"name": "bias", "kind": "matrix"}, [matrix]),
        ({"name": "%"}, []),
        ({"kind": "matrix"}, [matrix]),
        ({"kind": "generation", "status": "queued"}, [plain, *reversed(named), labelled]),
        ({"status": ["completed", "failed"]}, []),
    ]
    for query, jobs in expected:
        assert await listed(anna, **query) == jobs, query
    admin = await api.admin()
    assert len(await listed(admin, tag="nightly", all_users=True)) == 3
    assert len(await listed(admin, name="bias", model="flux", all_users=True)) == 4
    assert await listed(admin) == []


async def test_jobs_are_filtered_by_the_time_of_their_submission(anna: Caller) -> None:
    job = await anna.submit(GENERATION)
    now = datetime.now(UTC)
    before, after = (now - timedelta(minutes=1)).isoformat(), (now + timedelta(minutes=1)).isoformat()
    assert await listed(anna, created_after=before, created_before=after) == [job]
    assert await listed(anna, created_after=after) == []
    assert await listed(anna, created_before=before) == []


async def test_a_common_name_is_searched_along_the_newest_jobs(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beacon_runner.postgres.jobs.job_pages.MAX_SORTED", 2)
    jobs = [await anna.submit(GENERATION | {"name": "bias"}) for _ in range(3)]
    await api.run("done")
    assert await listed(anna, name="Bias") == jobs[::-1]


async def test_every_route_refuses_unknown_query_parameters(api: ApiHarness, admin: Caller) -> None:
    """A misspelt filter would otherwise return everything, or change everything."""
    others = ("/v1/", "/metrics", "/healthz", "/readyz")
    for path, methods in (await admin.get("/openapi.json"))["paths"].items():
        for method in methods:
            if path.startswith(others):
                continue
            address = path.replace("{job_class}", "low")
            answer = await admin.http.request(method, address, params={"taggs": "x"})
            assert answer.status_code == 422, f"{method} {path}: {answer.text}"
            assert "taggs" in answer.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tags", ["x"] * 17),
        ("tags", [""]),
        ("tags", ["a\nb"]),
        ("tags", ["x" * 65]),
        ("metadata", {f"k{number}": "v" for number in range(17)}),
        ("metadata", {"": "v"}),
        ("metadata", {"a b": "v"}),
        ("metadata", {"a": "v" * 513}),
        ("metadata", {"a": 1}),
        ("metadata", {"a": "\x00"}),
    ],
)
async def test_invalid_labels_are_refused(anna: Caller, field: str, value: Any) -> None:
    problem = await anna.post("/api/v1/jobs", GENERATION | {field: value}, 422)
    assert problem["code"] == "invalid_field"
    assert problem["errors"][0]["field"].startswith(field)
    assert await listed(anna) == []


@pytest.mark.parametrize(
    "query",
    [
        {"tags": "x"},
        {"metadata": "team"},
        {"metadata": "=x"},
        {"created_after": "2026-01-01T00:00:00"},
        {"created_after": "yesterday"},
        {"model": "a b"},
        {"name": ""},
        {"tag": ["x"] * 17},
    ],
)
async def test_invalid_filters_are_refused(anna: Caller, query: dict[str, Any]) -> None:
    await anna.get("/api/v1/jobs", 422, **query)
