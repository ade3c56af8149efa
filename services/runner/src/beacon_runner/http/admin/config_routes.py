"""The live configuration, for operators: the document, its revisions, and their changes."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.audit import AuditAction, AuditActor
from beacon_contracts.configuration import (
    ConfigChange,
    ConfigDocumentView,
    ConfigRevisionList,
    ConfigRevisionView,
    ConfigRollback,
    ConfigView,
)
from beacon_contracts.ids import USER, encode_id
from beacon_http.problems import HttpProblemError
from beacon_http.replies import view_response
from beacon_runner.application.configuration import ChangeRequest, ConfigService
from beacon_runner.domain.configuration import ConfigEntry
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import PageSize
from beacon_runner.http.openapi import problems
from beacon_runner.ports.configuration import RouterConfigs

CONFIG_PATH = "/admin/config"

IfMatch = Annotated[str | None, Header(max_length=100, description="The ETag of the revision that was read")]
Force = Annotated[
    bool,
    Query(description="Also if unfinished work has no backend afterwards and fails, or no pool and waits"),
]
DryRun = Annotated[bool, Query(description="Only report the differences, and what would be stranded")]
CommentText = Annotated[str, Query(max_length=500, pattern=r"^[^\x00]*$")]
RevisionPath = Annotated[int, Path(ge=1, le=2_147_483_647)]
Before = Annotated[int | None, Query(ge=1, le=2_147_483_647, description="Older revisions than this one")]
Document = Annotated[
    dict[str, Any], Body(description="The sections of beacon.toml", examples=[{"backends": {}}])
]


def config_routes(service: ConfigService, routers: RouterConfigs, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["configuration"], route_class=require_scope(keys, Scope.ADMIN))

    @routes.get("/config", responses={200: {"model": ConfigView}, **problems(401, 403, 404, 503)})
    async def get_config() -> Response:
        """The newest revision with its document, and the revisions that the routers run on."""
        newest = await service.newest()
        view = ConfigView(
            **entry_view(newest.entry).model_dump(),
            document=dict(newest.document),
            routers=await routers.configs(),
        )
        response = view_response(view)
        response.headers["etag"] = f'"{view.revision}"'
        return response

    @routes.put(
        "/config",
        responses={200: {"model": ConfigChange}, **problems(400, 401, 403, 404, 409, 412, 422, 428, 503)},
    )
    async def put_config(
        request: Request,
        document: Document,
        *,
        if_match: IfMatch = None,
        force: Force = False,
        dry_run: DryRun = False,
        comment: CommentText = "",
    ) -> Response:
        """Replace the document. Every process applies it within seconds."""
        wanted = ChangeRequest(principal_of(request).actor, comment, force, dry_run)
        return _changed(await service.replace(document, wanted, expected=_revision(if_match)))

    @routes.get(
        "/config/revisions", responses={200: {"model": ConfigRevisionList}, **problems(401, 403, 422, 503)}
    )
    async def list_config_revisions(limit: PageSize = 100, before: Before = None) -> Response:
        """Who changed the configuration, newest first."""
        found = await service.page(before, limit + 1)
        next_before = found[limit - 1].revision if len(found) > limit else None
        views = [entry_view(entry) for entry in found[:limit]]
        return view_response(ConfigRevisionList(revisions=views, next_before=next_before))

    @routes.get(
        "/config/revisions/{revision}",
        responses={200: {"model": ConfigDocumentView}, **problems(401, 403, 404, 422, 503)},
    )
    async def get_config_revision(revision: RevisionPath) -> Response:
        """One revision with its document."""
        found = await service.revision(revision)
        document = dict(found.document)
        return view_response(ConfigDocumentView(**entry_view(found.entry).model_dump(), document=document))

    @routes.post(
        "/config/rollback",
        responses={200: {"model": ConfigChange}, **problems(400, 401, 403, 404, 409, 422, 503)},
    )
    async def roll_back_config(
        request: Request, target: ConfigRollback, *, force: Force = False, dry_run: DryRun = False
    ) -> Response:
        """Apply an earlier revision again, as a new one."""
        wanted = ChangeRequest(
            principal_of(request).actor,
            target.comment or f"rollback to {target.revision}",
            force,
            dry_run,
            AuditAction.CONFIG_ROLLED_BACK,
        )
        return _changed(await service.roll_back(target.revision, wanted))

    return routes


def entry_view(entry: ConfigEntry) -> ConfigRevisionView:
    user = entry.actor.user
    actor = AuditActor(
        user_id=None if user is None else encode_id(USER, user), name=entry.actor_name, key=entry.actor.key
    )
    return ConfigRevisionView(
        revision=entry.revision, created_at=entry.created_at, actor=actor, comment=entry.comment
    )


def _changed(change: ConfigChange) -> Response:
    response = view_response(change)
    response.headers["etag"] = f'"{change.revision}"'
    return response


def _revision(if_match: str | None) -> int:
    if if_match is None:
        detail = "send If-Match with the ETag of GET /admin/config, so that no other change is lost"
        raise HttpProblemError(428, "if_match_required", detail)
    found = re.fullmatch(r'"?(\d{1,10})"?', if_match.strip())
    if found is None:
        raise HttpProblemError(412, "config_changed", "If-Match is not the ETag of a revision")
    return int(found.group(1))
