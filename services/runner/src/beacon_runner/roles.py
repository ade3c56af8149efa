"""Which services make up a process of each role."""

from enum import StrEnum

from beacon_config import BeaconConfig
from beacon_lifecycle import Service, Supervisor, SystemClock
from beacon_runner.api.compose import build_api
from beacon_runner.loops.bell import OutboxBell
from beacon_runner.queue import RedisAddress
from beacon_runner.resources import Resource
from beacon_runner.settings import RunnerSettings
from beacon_telemetry import new_registry


class Role(StrEnum):
    API = "api"


async def build(role: Role, settings: RunnerSettings, config: BeaconConfig) -> Supervisor:
    clock, registry = SystemClock(), new_registry()
    redis = RedisAddress(settings.redis_url, settings.redis_cluster).open()
    bell = OutboxBell(redis)
    services: list[Service] = [Resource("bell-redis", close_it=redis.aclose), bell]
    if role is Role.API:
        services += build_api(settings, config, clock, ring=bell.ring, registry=registry)
    return Supervisor(services, stop_timeout_s=config.runner.stop_grace_s + 10)
