"""The processes of the system and the environment of each."""

from pathlib import Path

import pytest

from beacon_config import BeaconConfig, load_config
from beacon_devstack.plan import Plan, Ports, make_plan, simulated_backends
from beacon_devstack.secret_store import Secrets
from beacon_devstack.settings import StackSettings

CONFIG = Path(__file__).parents[3] / "config" / "beacon.toml"
PORTS = Ports(runner=18000, router=18100, gpusim={"US": 18201, "EU": 18202, "ASIA": 18203})
SECRETS = Secrets.fresh()


@pytest.fixture
def config() -> BeaconConfig:
    return load_config(CONFIG, {})


def plan_for(config: BeaconConfig, **environment: str) -> Plan:
    settings = StackSettings.from_environment({"BEACON_CONFIG": str(CONFIG), **environment})
    return make_plan(
        config,
        settings,
        SECRETS,
        PORTS,
        database_url="postgresql://db.test/b",
        redis_url="redis://r.test/0",
        files_url="/data/files",
        router_state="/data/router-config.json",
    )


def test_every_shipped_region_is_simulated_by_one_process(config: BeaconConfig) -> None:
    plan = plan_for(config)
    assert {process.name for process in plan.gpusims} == {"gpusim-us", "gpusim-eu", "gpusim-asia"}
    us = next(process for process in plan.gpusims if process.name == "gpusim-us")
    assert us.environment["GPUSIM_REGION"] == "US"
    assert us.environment["GPUSIM_PORT"] == "18201"
    slots = sum(backend.slots for backend in config.backends.values() if backend.region == "US")
    assert us.environment["GPUSIM_SLOTS"] == str(slots)


def test_the_router_finds_the_simulated_backends_on_their_ports(config: BeaconConfig) -> None:
    environment = plan_for(config).router.environment
    assert environment["BEACON_BACKEND_US_1_URL"] == "http://127.0.0.1:18201/modal"
    assert environment["BEACON_BACKEND_US_STEPS_URL"] == "http://127.0.0.1:18201/v1/execute"
    assert environment["BEACON_BACKEND_ASIA_1_URL"] == "http://127.0.0.1:18203/v1"
    assert load_config(CONFIG, environment).backends["eu-1"].url.port == 18202


def test_a_backend_with_an_address_of_its_own_is_not_simulated(config: BeaconConfig) -> None:
    given = {"BEACON_BACKEND_EU_1_URL": "https://gpu.example/run"}
    assert "EU" not in simulated_backends(config, given)
    plan = plan_for(config, **given)
    assert {process.name for process in plan.gpusims} == {"gpusim-us", "gpusim-asia"}
    assert plan.router.environment["BEACON_BACKEND_EU_1_URL"] == "https://gpu.example/run"


def test_only_backends_that_are_marked_are_simulated(tmp_path: Path) -> None:
    path = tmp_path / "beacon.toml"
    marked = "[backends.asia-1]\nsimulated = true\n"
    text = CONFIG.read_text(encoding="utf-8")
    assert marked in text
    path.write_text(text.replace(marked, "[backends.asia-1]\n"), encoding="utf-8")
    simulated = simulated_backends(load_config(path, {}), {})
    assert {name for backends in simulated.values() for name in backends} == {"us-1", "us-steps", "eu-1"}


def test_the_runner_finds_the_router(config: BeaconConfig) -> None:
    plan = plan_for(config)
    assert plan.runner.environment["BEACON_ROUTER_URLS"] == plan.router.url == "http://127.0.0.1:18100"
    tokens = {process.environment["BEACON_SERVICE_TOKEN"] for process in (plan.runner, plan.router)}
    assert tokens == {SECRETS.service_token}


def test_a_stack_that_listens_everywhere_is_called_on_loopback(config: BeaconConfig) -> None:
    plan = plan_for(config, BEACON_RUNNER_HOST="0.0.0.0")
    assert plan.runner.environment["BEACON_RUNNER_HOST"] == "0.0.0.0"
    assert plan.runner.url == "http://127.0.0.1:18000"


def test_only_the_bootstrap_gets_the_keys_of_people(config: BeaconConfig) -> None:
    plan = plan_for(config)
    assert plan.bootstrap.environment["BEACON_BOOTSTRAP_ADMIN_KEY"] == SECRETS.admin_key
    for process in (plan.migrate, plan.runner, plan.router, *plan.gpusims):
        assert SECRETS.admin_key not in process.environment.values()
        assert SECRETS.user_key not in process.environment.values()
    for process in plan.gpusims:
        assert SECRETS.service_token not in process.environment.values()
