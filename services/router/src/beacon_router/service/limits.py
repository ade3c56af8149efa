"""How long a run may take, counted from its own start: loading and running have separate budgets."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from beacon_contracts.failures import FailureStage
from beacon_router.backends import BackendError


@dataclass(frozen=True, slots=True)
class ModelBudget:
    load_s: float
    run_s: float
    """When the caller does not say."""
    most_s: float = inf
    """The model's own limit on running: a caller may ask for less, not for more."""


class RunLimits:
    def __init__(self, budgets: Mapping[str, ModelBudget]) -> None:
        self._budgets = budgets

    def seconds(self, model: str, *, cold: bool, timeout_s: float | None) -> float:
        """The whole budget of a run; a cold start gets the time to load on top, so it is no failure."""
        budget = self._budgets[model]
        run_s = min(budget.run_s if timeout_s is None else timeout_s, budget.most_s)
        return budget.load_s + run_s if cold else run_s

    def exceeded(self, limit_s: float, *, cold: bool) -> BackendError:
        stage, code = (FailureStage.LOAD, "load_timeout") if cold else (FailureStage.RUN, "run_timeout")
        return BackendError(code, stage, True, f"not done {limit_s:g} s after its start", loses_model=True)
