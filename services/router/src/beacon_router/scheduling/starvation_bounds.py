"""How many dispatches a starving tier waits at most, as docs/scheduling.md states it."""

from beacon_router.scheduling.state.topology import Policy


def turns_until_served(policy: Policy, rank: int) -> int:
    """Turns within which a starving tier has one: 1 + the sum over other tiers of floor(w_i / w_rank) + 1."""
    own = policy.tiers[rank].weight
    return 1 + sum(tier.weight // own + 1 for other, tier in enumerate(policy.tiers) if other != rank)


def dispatches_until_served(policy: Policy, rank: int, sets: int = 1) -> int:
    """Dispatches within which a tier is served whose first request is past its bound.

    `sets` are the backend sets that serve the request's model. Counted are their dispatches at moments at
    which they could have served it.
    """
    of_one_set = (policy.bypass_limit + 1) * (policy.batch_limit + 1) * turns_until_served(policy, rank)
    return 1 + sets * (of_one_set - 1)
