"""Run timeouts, counted from the start of the run: loading and running have separate budgets."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ModelBudget:
    load_s: float
    run_s: float
    """If the request has no timeout of its own."""
    max_run_s: float = inf
    """Upper bound of a request's own timeout."""


class RunTimeouts:
    def __init__(self, budgets: Mapping[str, ModelBudget], default: ModelBudget) -> None:
        """`default`: of a model that was removed from the configuration, while a run of it is continued."""
        self._budgets = budgets
        self._default = default

    def seconds(self, model: str, *, cold: bool, timeout_s: float | None) -> float:
        """The whole budget of a run; a cold start gets the load budget in addition."""
        budget = self._budgets.get(model, self._default)
        run_s = min(budget.run_s if timeout_s is None else timeout_s, budget.max_run_s)
        return budget.load_s + run_s if cold else run_s
