"""Tiers are configuration: their names, their number, and their rank by order."""

from beacon_config.tiers import TierConfig
from beacon_contracts.accounts import Scope
from beacon_contracts.tiers import JobClass
from tests.integration.runner_api.harness import CONFIG, GENERATION, api_harness

TWO = {
    "gold": TierConfig.model_validate({"class": "high"}),
    "rest": TierConfig.model_validate({"class": "low", "pending_jobs": 1}),
}


async def test_tiers_of_any_name_work_at_the_api(database_url: str, redis_url: str) -> None:
    config = CONFIG.model_validate(CONFIG.model_dump(by_alias=True) | {"tiers": TWO})
    async with api_harness(database_url, redis_url, config) as api:
        root = await api.user("root", "gold", Scope.ADMIN, Scope.USER)
        tiers = (await root.get("/api/v1/tiers"))["tiers"]
        assert [(tier["name"], tier["rank"], tier["priority"]) for tier in tiers] == [
            ("gold", 0, "high"),
            ("rest", 1, "low"),
        ]
        made = await root.post("/admin/users", {"name": "ann"}, 201)
        assert made["tier"] == "rest"
        assert (await root.post("/admin/users", {"name": "bob", "tier": "gold"}, 201))["tier"] == "gold"
        refused = await root.post(f"/admin/users/{made['id']}", {"tier": "free"}, 422)
        assert refused["errors"][0]["message"] == "there is no tier 'free'; tiers are gold, rest"


async def test_a_user_of_a_removed_tier_has_the_limits_of_the_lowest(
    database_url: str, redis_url: str
) -> None:
    config = CONFIG.model_validate(CONFIG.model_dump(by_alias=True) | {"tiers": TWO})
    async with api_harness(database_url, redis_url, config) as api:
        ann = await api.user("ann", "creator")
        job = await ann.post("/api/v1/jobs", GENERATION, 202)
        assert job["priority"] == JobClass.LOW
        assert (await ann.get("/api/v1/me"))["limits"]["pending_jobs"]["left"] == 0
        assert (await ann.http.post("/api/v1/jobs", json=GENERATION)).status_code == 429
        await ann.post(f"/api/v1/jobs/{job['job_id']}/cancel")
        stream = {"accept": "text/event-stream"}
        events = await ann.http.get(f"/api/v1/jobs/{job['job_id']}/events", headers=stream)
        assert events.status_code == 200
