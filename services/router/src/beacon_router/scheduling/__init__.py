"""The router's pure scheduling core: docs/scheduling.md states its rules and bounds."""

from typing import Final

from beacon_router.scheduling.decisions import (
    Decision,
    Eta,
    Expired,
    Health,
    Holdup,
    Outcome,
    Reason,
    Request,
    RequestId,
    Start,
    Why,
)
from beacon_router.scheduling.scheduler import DuplicateRequestError, Scheduler, UnknownRequestError
from beacon_router.scheduling.snapshot import (
    BackendSnapshot,
    LimitSnapshot,
    RegionSnapshot,
    RunSnapshot,
    Snapshot,
)
from beacon_router.scheduling.topology import (
    BackendSpec,
    GroupSpec,
    LimitName,
    ModelSpec,
    Policy,
    RegionSpec,
    TierRule,
    Topology,
    model_limit,
)

COMPILED: Final = not __file__.endswith(".py")
"""Whether this is the core that images run; docs/decisions/0014 says how it is made."""

__all__ = [
    "COMPILED",
    "BackendSnapshot",
    "BackendSpec",
    "Decision",
    "DuplicateRequestError",
    "Eta",
    "Expired",
    "GroupSpec",
    "Health",
    "Holdup",
    "LimitName",
    "LimitSnapshot",
    "ModelSpec",
    "Outcome",
    "Policy",
    "Reason",
    "RegionSnapshot",
    "RegionSpec",
    "Request",
    "RequestId",
    "RunSnapshot",
    "Scheduler",
    "Snapshot",
    "Start",
    "TierRule",
    "Topology",
    "UnknownRequestError",
    "Why",
    "model_limit",
]
