"""The use of GPUs: a user's own, and every user's for operators."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import KEY, USER, UserId, encode_id
from beacon_contracts.model import Moment
from beacon_contracts.usage import UsageGroup, UsageReport, UsageRow
from beacon_http.replies import view_response
from beacon_lifecycle import Clock
from beacon_runner.domain.accounts.usage import MAX_ROWS, UsageSum, usage_query
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.csv_text import csv_lines
from beacon_runner.http.cursors import read_user
from beacon_runner.http.openapi import problems
from beacon_runner.ports.usage import UsageStore

USAGE_RESPONSES = {
    200: {"model": UsageReport, "content": {"text/csv": {}}},
    **problems(401, 403, 422, 503),
}

Groups = Annotated[
    list[UsageGroup] | None,
    Query(max_length=7, description="With `tag`, a job counts once for each of its tags"),
]
From = Annotated[Moment | None, Query(alias="from", description="ISO 8601 with an offset; 30 days ago")]
To = Annotated[Moment | None, Query(description="Not included; now")]
Format = Annotated[Literal["json", "csv"], Query(alias="format")]
OfUser = Annotated[str | None, Query(max_length=80, description="Only this user (`user_…`)")]


def usage_routes(usage: UsageStore, keys: ApiKeyCache, clock: Clock) -> list[APIRouter]:
    routes = APIRouter(tags=["usage"], route_class=require_scope(keys, Scope.USER))
    operators = APIRouter(tags=["usage"], route_class=require_scope(keys, Scope.ADMIN))

    async def report(
        user: UserId | None,
        groups: list[UsageGroup] | None,
        start: datetime | None,
        end: datetime | None,
        wanted: str,
    ) -> Response:
        query = usage_query(user, groups or (), start, end, clock.wall())
        sums = await usage.sums(query, MAX_ROWS + 1)
        if len(sums) > MAX_ROWS:
            message = f"the answer has more than {MAX_ROWS} rows: group by less or shorten the period"
            raise InvalidFieldsError.of("group_by", message, "too_many")
        rows = [_row(one) for one in sums]
        if wanted == "csv":
            return Response(_csv(rows), media_type="text/csv; charset=utf-8")
        return view_response(UsageReport(start=query.start, end=query.end, rows=rows))

    @routes.get("/api/v1/usage", responses=USAGE_RESPONSES)
    async def get_usage(
        request: Request,
        group_by: Groups = None,
        from_: From = None,
        to: To = None,
        as_: Format = "json",
    ) -> Response:
        """Runs, GPU seconds, tokens and bytes of the user, per hour or summed up."""
        return await report(principal_of(request).user, group_by, from_, to, as_)

    @operators.get("/admin/usage", responses=USAGE_RESPONSES)
    async def get_all_usage(
        user: OfUser = None,
        group_by: Groups = None,
        from_: From = None,
        to: To = None,
        as_: Format = "json",
    ) -> Response:
        """The same of all users, or of one."""
        return await report(None if user is None else read_user(user), group_by, from_, to, as_)

    return [routes, operators]


def _row(one: UsageSum) -> UsageRow:
    return UsageRow(
        period=one.period,
        user_id=None if one.user is None else encode_id(USER, one.user),
        key_id=None if one.key is None else encode_id(KEY, one.key),
        model=one.model,
        region=one.region,
        tag=one.tag,
        runs=one.runs,
        failed=one.failed,
        queue_seconds=round(one.queued_s, 3),
        load_seconds=round(one.load_s, 3),
        gpu_seconds=round(one.load_s + one.run_s, 3),
        tokens_in=one.tokens_in,
        tokens_out=one.tokens_out,
        output_bytes=one.output_bytes,
    )


def _csv(rows: list[UsageRow]) -> str:
    names = list(UsageRow.model_fields)
    return csv_lines([names, *([_text(getattr(row, name)) for name in names] for row in rows)])


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
