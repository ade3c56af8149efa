"""Where payment and patience move a job."""

import pytest

from beacon_config.tenancy import PoolConfig, PromotionConfig
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.classes import Promotion, better, front_class, promotions

HIGH, MEDIUM, LOW = JobClass
CONFIG = PromotionConfig(low_to_medium_after_s=30, medium_to_high_after_s=60)


def pools(*served: list[JobClass], strict: bool = False) -> dict[str, PoolConfig]:
    return {
        f"p{number}": PoolConfig(slots=1, classes=classes, strict=strict)
        for number, classes in enumerate(served)
    }


@pytest.mark.parametrize(
    ("served", "front"),
    [
        (pools([HIGH], [MEDIUM, HIGH], [LOW, MEDIUM, HIGH]), HIGH),
        (pools([HIGH], [MEDIUM, HIGH], [LOW, MEDIUM, HIGH], strict=True), HIGH),
        (pools([LOW]), LOW),
        (pools([LOW], [LOW, MEDIUM]), LOW),
        (pools([MEDIUM, LOW]), MEDIUM),
    ],
)
def test_who_paid_is_moved_to_the_class_that_most_pools_serve(
    served: dict[str, PoolConfig], front: JobClass
) -> None:
    assert front_class(served) is front


def test_better_is_the_one_that_goes_first() -> None:
    assert better(LOW, HIGH) is HIGH
    assert better(HIGH, MEDIUM) is HIGH


def test_low_rises_to_medium_and_medium_to_high_best_first() -> None:
    assert promotions(CONFIG, pools([HIGH, MEDIUM, LOW])) == (
        Promotion(MEDIUM, HIGH, 60),
        Promotion(LOW, MEDIUM, 30),
    )


def test_a_class_that_nobody_serves_is_passed_over() -> None:
    assert promotions(CONFIG, pools([HIGH, LOW])) == (Promotion(LOW, HIGH, 60),)
    assert promotions(CONFIG, pools([MEDIUM, LOW])) == (Promotion(LOW, MEDIUM, 30),)
    assert promotions(CONFIG, pools([LOW])) == ()
