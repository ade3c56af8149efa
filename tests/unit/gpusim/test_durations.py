"""Load and run times: seeded draws, scaled, with a default for unknown models."""

from random import Random
from statistics import median

import pytest

from beacon_gpusim.core.durations import Constant, DurationModel, Lognormal, ModelDurations, Uniform

DEFAULT = ModelDurations(load=Constant(9.0), run=Constant(7.0))


def timetable(models: dict[str, ModelDurations], *, scale: float = 1.0, seed: int = 1) -> DurationModel:
    return DurationModel(models, default=DEFAULT, scale=scale, random=Random(seed))


def test_a_constant_is_always_the_same() -> None:
    times = timetable({"m": ModelDurations(Constant(2.0), Constant(3.0))})
    assert [times.load_s("m"), times.run_s("m"), times.run_s("m")] == [2.0, 3.0, 3.0]


def test_a_uniform_draw_stays_within_its_bounds_and_uses_them() -> None:
    times = timetable({"m": ModelDurations(Constant(0), Uniform(1.0, 3.0))})
    draws = [times.run_s("m") for _ in range(500)]
    assert 1.0 <= min(draws) < 1.2
    assert 2.8 < max(draws) <= 3.0


def test_half_of_the_lognormal_draws_are_below_the_median_and_the_tail_is_long() -> None:
    times = timetable({"m": ModelDurations(Constant(0), Lognormal(median=2.0, sigma=0.5))})
    draws = [times.run_s("m") for _ in range(4000)]
    assert median(draws) == pytest.approx(2.0, rel=0.05)
    assert max(draws) > 6.0


def test_the_same_seed_gives_the_same_times() -> None:
    models = {"m": ModelDurations(Uniform(0, 9), Lognormal(1.0, 1.0))}

    def draws(seed: int) -> list[float]:
        times = timetable(models, seed=seed)
        return [times.load_s("m") for _ in range(5)] + [times.run_s("m") for _ in range(5)]

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


def test_all_times_are_scaled_and_zero_makes_everything_instant() -> None:
    models = {"m": ModelDurations(Constant(2.0), Constant(4.0))}
    assert timetable(models, scale=0.5).run_s("m") == 2.0
    assert timetable(models, scale=0).load_s("m") == 0.0
    assert timetable(models, scale=0).run_s("m") == 0.0


def test_an_unknown_model_takes_the_default_until_it_is_set() -> None:
    times = timetable({})
    assert times.load_s("new") == 9.0
    times.set("new", ModelDurations(Constant(1.0), Constant(1.0)))
    assert times.load_s("new") == 1.0
