"""Health and metrics of a process that serves no API (worker, relay)."""

from collections.abc import Sequence

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from beacon_http.server import HttpServer
from beacon_lifecycle import Service
from beacon_runner.http.routes.health_routes import ReadinessCheck, health_routes
from beacon_runner.migrations import head
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.job_queries import PostgresJobQueries
from beacon_runner.settings import RunnerSettings
from beacon_runner.wiring.resources import Resource


def build_status_server(
    settings: RunnerSettings, queue: QueueAdmin, registry: CollectorRegistry
) -> Sequence[Service]:
    database = Database(settings.database_url, size=1, name="beacon-status")
    check = ReadinessCheck(PostgresJobQueries(database).version, head(), queue.ping)
    app = FastAPI(title="Beacon runner, status", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(health_routes(check, registry))
    return [
        Resource("status-database", open_it=database.open, close_it=database.close),
        HttpServer(app, host=settings.host, port=settings.port, ready_file=settings.ready_file),
    ]
