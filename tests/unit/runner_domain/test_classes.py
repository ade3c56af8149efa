"""The class of a job after a payment or a long wait."""

from pathlib import Path

import pytest

from beacon_config import BeaconConfig, load_config
from beacon_config.queues import PoolConfig
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.classes import Promotion, better, front_class, promotions, usable_classes

HIGH, MEDIUM, LOW = JobClass
SHIPPED = load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})


def served(*pools: list[JobClass], strict: bool = False, used: list[JobClass] | None = None) -> BeaconConfig:
    """The shipped configuration with these pools, and every tier in the first of the used classes."""
    made = {
        f"p{number}": PoolConfig(slots=1, classes=classes, strict=strict)
        for number, classes in enumerate(pools)
    }
    tiers = SHIPPED.tiers
    if used is not None:
        classes = [used[min(number, len(used) - 1)] for number in range(len(tiers))]
        tiers = {
            name: tier.model_copy(update={"job_class": job_class})
            for (name, tier), job_class in zip(tiers.items(), classes, strict=True)
        }
    return SHIPPED.model_copy(update={"pools": made, "tiers": tiers})


@pytest.mark.parametrize(
    ("config", "front"),
    [
        (SHIPPED, HIGH),
        (served([HIGH], [MEDIUM, HIGH], [LOW, MEDIUM, HIGH], strict=True), HIGH),
        (served([LOW], used=[LOW]), LOW),
        (served([LOW], [LOW, MEDIUM], [HIGH]), LOW),
        (served([MEDIUM, LOW]), MEDIUM),
        (served([HIGH, LOW], used=[LOW]), LOW),
    ],
)
def test_a_paid_job_moves_to_the_class_that_most_pools_serve(config: BeaconConfig, front: JobClass) -> None:
    assert front_class(config) is front


def test_the_better_class_is_served_first() -> None:
    assert better(LOW, HIGH) is HIGH
    assert better(HIGH, MEDIUM) is HIGH


def test_low_rises_to_medium_and_medium_to_high_best_first() -> None:
    assert promotions(SHIPPED) == (Promotion(MEDIUM, HIGH, 3600), Promotion(LOW, MEDIUM, 1800))


def test_an_unused_or_unserved_class_is_skipped() -> None:
    assert promotions(served([HIGH, LOW])) == (Promotion(LOW, HIGH, 3600),)
    assert promotions(served([MEDIUM, LOW])) == (Promotion(LOW, MEDIUM, 1800),)
    assert promotions(served([LOW])) == ()
    assert promotions(served([HIGH, MEDIUM, LOW], used=[HIGH, LOW])) == (Promotion(LOW, HIGH, 3600),)
    assert usable_classes(served([HIGH, MEDIUM], used=[HIGH, LOW])) == {HIGH}
