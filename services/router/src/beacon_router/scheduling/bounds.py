"""The numbers of promise 6, computed as docs/scheduling.md states them."""

from beacon_router.scheduling.topology import Policy


def turns_until_served(policy: Policy, rank: int) -> int:
    """Turns of one fleet within which a starving tier has one: 1 + the sum of ceil(w_i / w_rank)."""
    own = policy.tiers[rank].weight
    others = (tier.weight for other, tier in enumerate(policy.tiers) if other != rank)
    return 1 + sum(-(-weight // own) for weight in others)


def dispatches_until_served(policy: Policy, rank: int, fleets: int = 1) -> int:
    """Dispatches within which a tier whose head is past its bound is served.

    `fleets` (backends of a region with the same models) are those that serve the head's model. Counted are
    their dispatches at moments at which they could have served that head.
    """
    turns = turns_until_served(policy, rank)
    of_one_fleet = (policy.express_limit + 1) * (policy.batch_limit + 1) * turns
    return 1 + fleets * (of_one_fleet - 1)
