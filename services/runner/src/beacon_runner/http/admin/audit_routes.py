"""The audit log, for operators."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.audit import AuditActor, AuditEntryView, AuditPage
from beacon_contracts.ids import AUDIT, USER, encode_id
from beacon_contracts.model import Moment
from beacon_http.replies import view_response
from beacon_runner.domain.accounts.audit import AuditEntry, AuditFilter
from beacon_runner.http.auth import ApiKeyCache, require_scope
from beacon_runner.http.cursors import Cursor, PageSize, read_audit_cursor, read_user
from beacon_runner.http.openapi import problems
from beacon_runner.ports.audit import AuditLog

ActorFilter = Annotated[str | None, Query(max_length=80, description="Changes by this user (`user_…`)")]
ActionFilter = Annotated[str | None, Query(max_length=64, pattern=r"^[a-z_.]+$", examples=["key.revoked"])]
TargetFilter = Annotated[
    str | None, Query(max_length=100, pattern=r"^[^\x00]*$", description="Changes of this id or name")
]
Since = Annotated[Moment | None, Query(description="From this time")]
Until = Annotated[Moment | None, Query(description="Before this time")]


def audit_routes(log: AuditLog, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["operations"], route_class=require_scope(keys, Scope.ADMIN))

    @routes.get("/audit", responses={200: {"model": AuditPage}, **problems(401, 403, 422, 503)})
    async def list_audit_entries(
        *,
        actor: ActorFilter = None,
        action: ActionFilter = None,
        target: TargetFilter = None,
        since: Since = None,
        until: Until = None,
        limit: PageSize = 100,
        cursor: Cursor = None,
    ) -> Response:
        """Changes of users, keys, credit, webhooks and queues, newest first."""
        wanted = AuditFilter(
            None if actor is None else read_user(actor, "actor"), action, target, since, until
        )
        found = await log.page(wanted, read_audit_cursor(cursor), limit + 1)
        next_cursor = encode_id(AUDIT, found[limit - 1].id) if len(found) > limit else None
        return view_response(
            AuditPage(entries=[_entry_view(one) for one in found[:limit]], next_cursor=next_cursor)
        )

    return routes


def _entry_view(entry: AuditEntry) -> AuditEntryView:
    user = entry.actor.user
    actor = AuditActor(
        user_id=None if user is None else encode_id(USER, user), name=entry.actor_name, key=entry.actor.key
    )
    return AuditEntryView(
        id=encode_id(AUDIT, entry.id),
        at=entry.at,
        actor=actor,
        action=entry.action,
        target=entry.target,
        details=dict(entry.details),
    )
