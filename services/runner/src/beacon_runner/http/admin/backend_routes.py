"""Backends and models of the live configuration, for operators."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from starlette.requests import Request
from starlette.responses import Response

from beacon_config import BeaconConfig, parse_document
from beacon_config.topology import BackendConfig
from beacon_contracts.accounts import Scope
from beacon_contracts.audit import AuditAction
from beacon_contracts.configuration import ConfigChange, ConfiguredBackend, ConfiguredBackends
from beacon_contracts.router_status import BackendStatus
from beacon_http.replies import view_response
from beacon_runner.application import backend_edits
from beacon_runner.application.configuration import ChangeRequest, ConfigService, Edit
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.http.admin.config_routes import DryRun, Force
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.openapi import problems
from beacon_runner.ports.router import RouterPort

NamePath = Annotated[str, Path(max_length=64)]
_EXAMPLE = {"region": "US", "dialect": "openai", "url": "https://gpu-7.example/v1", "models": ["my-model"]}
Settings = Annotated[
    dict[str, Any],
    Body(description="Keys of [backends.<name>]; null restores a default", examples=[{"slots": 8}]),
]
NamedSettings = Annotated[
    dict[str, Any],
    Body(description="`name`, and keys of [backends.<name>]", examples=[{"name": "gpu-7", **_EXAMPLE}]),
]
_WORST_FIRST = ("open", "starting", "half_open", "closed")


_CHANGES: dict[int | str, Any] = {
    200: {"model": ConfigChange},
    **problems(400, 401, 403, 404, 409, 412, 422, 503),
}


class BackendChanges:
    """Each change is a revision of its own."""

    def __init__(self, service: ConfigService) -> None:
        self._service = service

    async def apply(
        self,
        request: Request,
        edit: Edit,
        action: AuditAction,
        name: str,
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> Response:
        actor, comment = principal_of(request).actor, f"{action} {name}"[:500]
        change = ChangeRequest(actor, comment, force, dry_run, action, name[:100])
        return view_response(await self._service.edit(edit, change))


def backend_routes(service: ConfigService, routers: RouterPort, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["configuration"], route_class=require_scope(keys, Scope.ADMIN))
    changes = BackendChanges(service)

    @routes.get("/backends", responses={200: {"model": ConfiguredBackends}, **problems(401, 403, 404, 503)})
    async def list_backends() -> Response:
        """All backends, with what the routers report about each."""
        statuses = await routers.status()
        reported = [
            backend
            for status in statuses
            if status.queues is not None
            for region in status.queues.regions.values()
            for backend in region.backends
        ]
        newest = await service.newest()
        config = parse_document(newest.document, {})
        complete = all(status.queues is not None for status in statuses)
        return view_response(_configured(config, newest.entry.revision, reported, complete=complete))

    @routes.post("/backends", responses=_CHANGES)
    async def add_backend(
        request: Request, settings: NamedSettings, *, force: Force = False, dry_run: DryRun = False
    ) -> Response:
        """Add a backend; the routers use it within seconds."""
        name = settings.pop("name", None)
        if not isinstance(name, str) or not name:
            raise InvalidFieldsError.of("name", "must be the name of the new backend")
        edit = backend_edits.add_backend(name, settings)
        return await changes.apply(
            request, edit, AuditAction.BACKEND_ADDED, name, force=force, dry_run=dry_run
        )

    @routes.patch("/backends/{name:path}", responses=_CHANGES)
    async def change_backend(
        request: Request, name: NamePath, settings: Settings, *, force: Force = False, dry_run: DryRun = False
    ) -> Response:
        """Change some keys of a backend, such as its slots. Running requests end as they began."""
        edit = backend_edits.change_backend(name, settings)
        return await changes.apply(
            request, edit, AuditAction.BACKEND_CHANGED, name, force=force, dry_run=dry_run
        )

    @routes.post("/backends/{name:path}/drain", responses=_CHANGES)
    async def drain_backend(request: Request, name: NamePath) -> Response:
        """Running requests end, and none is started."""
        edit = backend_edits.change_backend(name, {"drain": True})
        return await changes.apply(request, edit, AuditAction.BACKEND_DRAINED, name)

    @routes.post("/backends/{name:path}/resume", responses=_CHANGES)
    async def resume_backend(request: Request, name: NamePath) -> Response:
        """End a drain."""
        edit = backend_edits.change_backend(name, {"drain": None})
        return await changes.apply(request, edit, AuditAction.BACKEND_RESUMED, name)

    @routes.delete("/backends/{name:path}", responses=_CHANGES)
    async def remove_backend(
        request: Request, name: NamePath, *, force: Force = False, dry_run: DryRun = False
    ) -> Response:
        """Remove a backend, with the models and regions that no other backend has. Running requests end."""
        edit = backend_edits.remove_backend(name)
        return await changes.apply(
            request, edit, AuditAction.BACKEND_REMOVED, name, force=force, dry_run=dry_run
        )

    return routes


def model_routes(service: ConfigService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["configuration"], route_class=require_scope(keys, Scope.ADMIN))
    changes = BackendChanges(service)

    @routes.post("/models/{name:path}/pause", responses=_CHANGES)
    async def pause_model(request: Request, name: NamePath) -> Response:
        """Requests for the model are accepted and wait; running ones end."""
        edit = backend_edits.pause_model(name, paused=True)
        return await changes.apply(request, edit, AuditAction.MODEL_PAUSED, name)

    @routes.post("/models/{name:path}/resume", responses=_CHANGES)
    async def resume_model(request: Request, name: NamePath) -> Response:
        """End a pause."""
        edit = backend_edits.pause_model(name, paused=False)
        return await changes.apply(request, edit, AuditAction.MODEL_RESUMED, name)

    return routes


def _configured(
    config: BeaconConfig, revision: int, reported: Sequence[BackendStatus], *, complete: bool
) -> ConfiguredBackends:
    """`complete`: all routers have answered."""
    busy = Counter[str]()
    for status in reported:
        busy[status.name] += status.busy
    return ConfiguredBackends(
        revision=revision,
        backends=[
            _view(name, backend, [one for one in reported if one.name == name], busy[name], complete=complete)
            for name, backend in config.backends.items()
        ],
    )


def _view(
    name: str, backend: BackendConfig, reported: Sequence[BackendStatus], busy: int, *, complete: bool
) -> ConfiguredBackend:
    """Of several reports, the worst state. It is drained when no router runs or starts anything."""
    breakers = sorted((one.breaker for one in reported), key=lambda one: _WORST_FIRST.index(one.state))
    state = breakers[0].state if breakers else "unknown"
    if backend.drain:
        ended = complete and not any(one.busy or one.slots for one in reported)
        state = "drained" if ended else "draining"
    return ConfiguredBackend(
        name=name,
        region=backend.region,
        dialect=backend.dialect,
        url=str(backend.url),
        models=backend.models,
        slots=backend.slots,
        group=backend.group,
        drain=backend.drain,
        simulated=backend.simulated,
        busy=busy,
        state=state,
        cause="no_slots" if backend.slots == 0 else breakers[0].cause if breakers else None,
    )
