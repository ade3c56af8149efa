"""Typed clients of runner and router, and the beacon command line."""

from beacon_client.errors import (
    BeaconError,
    BeaconUnreachable,
    RouterBusy,
    RouterRefused,
    RouterUnreachable,
)
from beacon_client.router import RouterClient
from beacon_client.runner import RunnerClient
from beacon_client.sync import Beacon

__all__ = [
    "Beacon",
    "BeaconError",
    "BeaconUnreachable",
    "RouterBusy",
    "RouterClient",
    "RouterRefused",
    "RouterUnreachable",
    "RunnerClient",
]
