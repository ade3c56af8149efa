"""Clock, service contract, supervisor, signals: how every Beacon process starts, runs and stops."""

from beacon_lifecycle.circuit_breaker import BreakerState, CircuitBreaker
from beacon_lifecycle.clock import Clock, ManualClock, SystemClock
from beacon_lifecycle.gc_tuning import tune_gc
from beacon_lifecycle.loop import Loop, RunResult, WakeEvent
from beacon_lifecycle.reload import ReloadOnSignal
from beacon_lifecycle.service import Service
from beacon_lifecycle.supervisor import Supervisor, run_process
from beacon_lifecycle.tasks import TaskSet

__all__ = [
    "BreakerState",
    "CircuitBreaker",
    "Clock",
    "Loop",
    "ManualClock",
    "ReloadOnSignal",
    "RunResult",
    "Service",
    "Supervisor",
    "SystemClock",
    "TaskSet",
    "WakeEvent",
    "run_process",
    "tune_gc",
]
