"""The rules of runs: delays between attempts, and run timeouts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    attempts: int
    max_delay_s: float

    def next_attempt_at(self, now: float, *, attempts_made: int, start_by: float | None) -> float | None:
        """None: no attempt is left, or it would start after `start_by`."""
        if attempts_made >= self.attempts:
            return None
        due = now + min(2.0**attempts_made, self.max_delay_s)
        return None if start_by is not None and due > start_by else due


@dataclass(frozen=True, slots=True)
class ModelBudget:
    load_s: float
    run_s: float
    """If the request has no timeout of its own."""
    max_run_s: float = inf
    """Upper bound of a request's own timeout."""


class RunTimeouts:
    """Counted from the start of the run: loading and running have separate budgets."""

    def __init__(self, budgets: Mapping[str, ModelBudget], default: ModelBudget) -> None:
        """`default`: of a model that was removed from the configuration, while a run of it is continued."""
        self._budgets = budgets
        self._default = default

    def seconds(self, model: str, *, cold: bool, timeout_s: float | None) -> float:
        """The whole budget of a run; a cold start gets the load budget in addition."""
        budget = self._budgets.get(model, self._default)
        run_s = min(budget.run_s if timeout_s is None else timeout_s, budget.max_run_s)
        return budget.load_s + run_s if cold else run_s


@dataclass(frozen=True, slots=True)
class RunRules:
    retries: BackoffPolicy
    timeouts: RunTimeouts
    reader_timeout_s: float = 30.0
