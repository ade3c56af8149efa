"""Clock, service contract, supervisor, signals: how every Beacon process starts, runs and stops."""

from beacon_lifecycle.clock import Clock, ManualClock, SystemClock
from beacon_lifecycle.garbage import look_for_garbage_less_often
from beacon_lifecycle.loop import Loop, Wakeup
from beacon_lifecycle.service import Service
from beacon_lifecycle.supervisor import Supervisor, run_process
from beacon_lifecycle.tasks import OwnedTasks

__all__ = [
    "Clock",
    "Loop",
    "ManualClock",
    "OwnedTasks",
    "Service",
    "Supervisor",
    "SystemClock",
    "Wakeup",
    "look_for_garbage_less_often",
    "run_process",
]
