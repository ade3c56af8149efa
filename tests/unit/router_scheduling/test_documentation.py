"""docs/scheduling.md states the rules and the bounds of the scheduler."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from beacon_router.scheduling import Policy, TierRule
from beacon_router.scheduling.policy import RULES
from beacon_router.scheduling.starvation_bounds import dispatches_until_served, turns_until_served
from beacon_router.scheduling.state.topology import DEFAULT_TIERS
from beacon_router.scheduling.stride import StrideScheduler

PAGE = Path(__file__).parents[3] / "docs" / "scheduling.md"
TIERS = ("admin", "creator", "premium", "supporter", "free")


def _documented(tier: str) -> list[str]:
    (line,) = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {tier} |")
    ]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_the_docstring_of_a_rule_is_in_the_documentation(rule: Callable[..., object]) -> None:
    def plain(text: str) -> str:
        return " ".join(re.sub(r"\*\*|\(\d+( s)?\)", "", text).split())

    assert plain(str(rule.__doc__)) in plain(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("rank", "tier"), list(enumerate(TIERS)))
def test_the_documented_bounds_are_those_of_the_shipped_policy(rank: int, tier: str) -> None:
    policy, rule = Policy(), DEFAULT_TIERS[rank]

    assert _documented(tier) == [
        tier,
        f"{rule.starvation_bound_s:g} s",
        str(rule.weight),
        str(turns_until_served(policy, rank)),
        str(dispatches_until_served(policy, rank)),
    ]


@pytest.mark.parametrize("rank", range(len(TIERS)))
def test_no_tier_waits_longer_for_its_turn_than_the_formula_says(rank: int) -> None:
    """Every other tier always takes turns, and this one arrives at any moment."""
    for before in range(40):
        turns = StrideScheduler([tier.weight for tier in DEFAULT_TIERS])
        others = [other for other in range(len(TIERS)) if other != rank]
        for _ in range(before):
            turns.take(turns.choose(others))
        taken = 1
        while (chosen := turns.choose(range(len(TIERS)))) != rank:
            turns.take(chosen)
            taken += 1
        assert taken <= turns_until_served(Policy(), rank)


def test_more_backend_sets_allow_more_dispatches() -> None:
    policy = Policy(batch_limit=2, bypass_limit=1, tiers=(TierRule(10.0, 2), TierRule(20.0, 1)))

    assert turns_until_served(policy, 1) == 4  # three turns of the other tier, then its own
    assert dispatches_until_served(policy, 1) == 2 * 3 * 4
    assert dispatches_until_served(policy, 1, sets=2) == 1 + 2 * (2 * 3 * 4 - 1)
