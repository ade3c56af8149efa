"""Health and metrics of a process that serves no API: workers and relays are watched like everything else."""

from collections.abc import Sequence

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from beacon_lifecycle import Service
from beacon_lifecycle.http_server import HttpServer
from beacon_runner.api.health_routes import ReadinessCheck, health_routes
from beacon_runner.domain.ports import QueueDesk
from beacon_runner.migrations import head
from beacon_runner.resources import Resource
from beacon_runner.settings import RunnerSettings
from beacon_runner.store.database import Database
from beacon_runner.store.reading import Reader


def build_status_door(
    settings: RunnerSettings, desk: QueueDesk, registry: CollectorRegistry
) -> Sequence[Service]:
    database = Database(settings.database_url, size=1, name="beacon-status")
    check = ReadinessCheck(Reader(database).version, head(), desk.ping)
    app = FastAPI(title="Beacon runner, status", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(health_routes(check, registry))
    return [
        Resource("status-database", open_it=database.open, close_it=database.close),
        HttpServer(app, host=settings.host, port=settings.port, ready_file=settings.ready_file),
    ]
