"""Names of keys by the settings."""

from importlib.resources import files
from pathlib import Path
from uuid import UUID

import pytest

from beacon_config import BeaconConfig, load_config
from beacon_config.queues import LanesConfig, LaneStrategy
from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_redis import LuaScripts
from beacon_runner.domain.queue.messages import Message
from beacon_runner.redis_queue import Layout
from beacon_runner.redis_queue.position import PositionReply, queue_place
from beacon_runner.redis_queue.scripts import Operation

SCRIPTS = LuaScripts(files("beacon_runner.redis_queue") / "lua")
CONFIG = load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})


def single(config: BeaconConfig) -> BeaconConfig:
    return config.model_copy(update={"lanes": LanesConfig(strategy=LaneStrategy.SINGLE)})


def one_class(config: BeaconConfig) -> BeaconConfig:
    tiers = {
        tier: settings.model_copy(update={"job_class": JobClass.LOW})
        for tier, settings in config.tiers.items()
    }
    return config.model_copy(update={"tiers": tiers})


def test_keys_share_a_hash_tag_in_a_cluster() -> None:
    assert Layout.of(CONFIG, cluster=False).shared[0] == "jobs:live"
    assert set(Layout.of(CONFIG, cluster=True).shared) == {
        "{beacon}jobs:live",
        "{beacon}jobs:leases",
        "{beacon}jobs:retry",
        "{beacon}jobs:waiting",
        "{beacon}jobs:paused",
    }


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        (CONFIG, False),
        (one_class(CONFIG), False),
        (single(CONFIG), False),
        (single(one_class(CONFIG)), True),
    ],
)
def test_the_list_is_named_jobs_with_one_lane_and_class(config: BeaconConfig, plain: bool) -> None:
    assert Layout.of(config, cluster=False).plain is plain


@pytest.mark.parametrize("operation", list(Operation))
def test_every_script_documents_its_keys_arguments_and_result(operation: Operation) -> None:
    text = SCRIPTS.scripts[operation].text
    assert "-- KEYS 1" in text
    assert "-- ARGV" in text
    assert "-- Returns" in text
    assert "-- include" not in text


def position_reply(**changes: object) -> PositionReply:
    usual = {
        "place": "w",
        "job_class": "low",
        "lane": "anna",
        "in_front": 0,
        "ahead_in_lane": 3,
        "length": 10,
        "first": "0" * 32 + ":1",
        "last": "f" * 32 + ":1",
        "lanes": 1,
        "lanes_read": 1,
        "others_before": 0,
    }
    return PositionReply(**{**usual, **changes})  # type: ignore[arg-type]


MIDDLE = Message(JobId(UUID(int=0x7FFFFFFFFFFF << 80)), 1, 0, 1, JobClass.LOW, "anna")


def test_lanes_that_were_not_read_are_extrapolated() -> None:
    place = queue_place(MIDDLE, position_reply(lanes=1_000, lanes_read=200, others_before=600))
    assert place is not None
    assert place.ahead == 3 + 3_000


def test_a_position_deep_in_a_lane_follows_from_the_age() -> None:
    place = queue_place(MIDDLE, position_reply(ahead_in_lane=-1, length=100_001))
    assert place is not None
    assert place.ahead_in_lane == pytest.approx(50_000, abs=1)


def test_a_message_whose_lane_is_empty_has_no_position() -> None:
    """Its list was deleted: the script found neither the message nor a first and last one."""
    reply = position_reply(ahead_in_lane=-1, length=0, first="", last="")
    assert queue_place(MIDDLE, reply) is None


@pytest.mark.parametrize("place", ["l", "k", "r"])
def test_a_message_outside_of_lanes_has_no_position(place: str) -> None:
    assert queue_place(MIDDLE, position_reply(place=place)) is None
