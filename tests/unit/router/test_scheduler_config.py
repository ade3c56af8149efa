"""From the configuration to the scheduler's topology and policy."""

from pathlib import Path

from beacon_config import load_config, parse_document
from beacon_router.scheduler_config import policy_of, run_timeouts_of, topology_of
from beacon_router.scheduling import LimitName

SHIPPED = Path(__file__).resolve().parents[3] / "config" / "beacon.toml"


def test_the_shipped_configuration_can_be_scheduled_on() -> None:
    config = load_config(SHIPPED, {})
    topology = topology_of(config)

    assert {backend.name for backend in topology.backends} == set(config.backends)
    assert topology.limits[LimitName("group:modal")] == 10
    assert topology.limits[LimitName("model:image_gen")] == 1
    assert [tier.starvation_bound_s for tier in policy_of(config).tiers] == [30, 45, 60, 90, 120]


def test_only_comfyui_has_its_runs_in_memory() -> None:
    document = {
        "backends": {
            "comfy": {"dialect": "comfyui", "url": "http://a", "models": ["paint"]},
            "rented": {"dialect": "async", "preset": "runpod", "url": "http://b", "models": ["sdxl"]},
        },
        "models": {"paint": {"workflow": {"graph": {"1": {"class_type": "A", "inputs": {}}}}}, "sdxl": {}},
    }
    backends = topology_of(parse_document(document, {})).backends

    assert {backend.name: backend.durable_runs for backend in backends} == {"comfy": False, "rented": True}


def test_replicas_share_the_slots_of_backends() -> None:
    config = load_config(SHIPPED, {})
    limits = topology_of(config, replicas=True).limits

    for name in ("us-1", "asia-1"):
        assert limits[LimitName(f"slots:{name}")] == config.backends[name].slots
    assert topology_of(config).limits.keys() < limits.keys()


def test_a_cap_that_is_tighter_than_the_slots_needs_no_second_token() -> None:
    config = load_config(SHIPPED, {})
    tight = config.groups["modal"].model_copy(update={"cap": 4})
    limits = topology_of(config.model_copy(update={"groups": {"modal": tight}}), replicas=True).limits

    assert LimitName("slots:us-1") not in limits


def test_a_run_has_the_models_own_limits_or_the_routers() -> None:
    limits = run_timeouts_of(load_config(SHIPPED, {}))

    assert limits.seconds("flux", cold=False, timeout_s=None) == 300
    assert limits.seconds("flux", cold=True, timeout_s=None) == 900
    assert limits.seconds("flux", cold=True, timeout_s=5) == 605


def test_a_request_timeout_is_bounded_by_that_of_the_model() -> None:
    """The runner asks for `execution_timeout_s`: a hung model is still ended by its own limit."""
    config = load_config(SHIPPED, {})
    own = config.models["flux"].model_copy(update={"run_timeout_s": 60.0})
    limits = run_timeouts_of(config.model_copy(update={"models": {**config.models, "flux": own}}))

    assert limits.seconds("flux", cold=False, timeout_s=900) == 60
    assert limits.seconds("flux", cold=False, timeout_s=5) == 5
    assert limits.seconds("sdxl", cold=False, timeout_s=900) == 900
