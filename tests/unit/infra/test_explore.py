"""`make explore` draws new seeds and prints how to repeat a failure."""

import random
from itertools import islice

import pytest

from infra import explore
from infra.explore import Exploration


def test_every_exploration_has_a_seed_of_its_own() -> None:
    first, second, third = islice(explore.explorations(random.Random(1)), 3)
    assert first.arguments != third.arguments
    assert second.environment["BEACON_CHAOS_SEED"] in first.arguments


def test_a_failure_ends_the_exploration_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Exploration("broken", "tests/does_not_exist.py", {"BEACON_CHAOS_SEED": "7"})
    monkeypatch.setattr(explore, "explorations", lambda _: iter([failing]))
    assert explore.explore(60.0, random.Random(1)) == 1
    repeat = "BEACON_CHAOS_SEED=7 .venv/bin/python -m pytest -q -p no:cacheprovider tests/does_not_exist.py"
    assert repeat in capsys.readouterr().err


def test_an_exploration_is_stopped_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Exploration("endless", "")
    monkeypatch.setattr(explore, "explorations", lambda _: iter([endless]))
    monkeypatch.setattr(explore, "PYTEST", "python -c __import__('threading').Event().wait()")
    assert explore.explore(0.05, random.Random(1)) == 0
