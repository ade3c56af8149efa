"""The credit ledger: the user's own, and every user's for operators."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Ledger, LedgerEntry, Scope
from beacon_contracts.ids import USER, UserId, decode_id, encode_job_id
from beacon_http.replies import view_response
from beacon_runner.domain.accounts.credit import LedgerRecord
from beacon_runner.http.admin.user_routes import UserPath
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import PageSize
from beacon_runner.http.openapi import problems
from beacon_runner.ports.users import CreditStore, UserStore

EntryCursor = Annotated[str | None, Query(pattern="^[0-9]{1,18}$", examples=["1042"])]


def ledger_routes(credit: CreditStore, users: UserStore, keys: ApiKeyCache) -> list[APIRouter]:
    routes = APIRouter(tags=["credit"], route_class=require_scope(keys, Scope.USER))
    operators = APIRouter(tags=["credit"], route_class=require_scope(keys, Scope.ADMIN))

    async def ledger(user: UserId, limit: int, cursor: str | None) -> Response:
        found = await credit.ledger(user, None if cursor is None else int(cursor), limit + 1)
        next_cursor = str(found[limit - 1].id) if len(found) > limit else None
        return view_response(
            Ledger(entries=[entry_view(one) for one in found[:limit]], next_cursor=next_cursor)
        )

    @routes.get("/api/v1/me/ledger", responses={200: {"model": Ledger}, **problems(401, 403, 422, 503)})
    async def get_own_ledger(request: Request, limit: PageSize = 50, cursor: EntryCursor = None) -> Response:
        """Grants, payments and refunds, newest first."""
        return await ledger(principal_of(request).user, limit, cursor)

    @operators.get(
        "/admin/users/{user_id}/ledger",
        responses={200: {"model": Ledger}, **problems(401, 403, 404, 422, 503)},
    )
    async def get_user_ledger(
        user_id: UserPath, limit: PageSize = 50, cursor: EntryCursor = None
    ) -> Response:
        """A user's ledger, newest first."""
        user = await users.get(UserId(decode_id(USER, user_id)))
        return await ledger(user.id, limit, cursor)

    return [routes, operators]


def entry_view(record: LedgerRecord) -> LedgerEntry:
    return LedgerEntry(
        id=record.id,
        at=record.at,
        entry=record.entry,
        amount=record.amount,
        balance=record.balance,
        job_id=None if record.job is None else encode_job_id(record.job),
        refunds=record.refunds,
        note=record.note,
    )
