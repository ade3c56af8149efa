"""`beacon usage`: runs, GPU seconds and tokens, summed up."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from beacon_cli.connect import call_runner
from beacon_cli.output.formatting import file_size
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_contracts.usage import UsageGroup, UsageRow

_PERIODS = {UsageGroup.HOUR: "%Y-%m-%d %H:00", UsageGroup.DAY: "%Y-%m-%d"}
_FIELDS = {
    UsageGroup.USER: "user_id",
    UsageGroup.KEY: "key_id",
    UsageGroup.MODEL: "model",
    UsageGroup.REGION: "region",
    UsageGroup.TAG: "tag",
}

By = Annotated[
    list[UsageGroup] | None,
    typer.Option("--by", help="Group by this; may be repeated. A job counts for each of its tags."),
]
Days = Annotated[int, typer.Option(min=1, max=400, help="Number of days, up to now.")]
OfUser = Annotated[
    str | None, typer.Option("--user", help="Only this user (user_…); needs the administrator's key.")
]
AllUsers = Annotated[bool, typer.Option("--all-users", help="All users; needs the administrator's key.")]


def usage(
    by: By = None,
    days: Days = 30,
    user: OfUser = None,
    all_users: AllUsers = False,
    _json: AsJson = False,
) -> None:
    """Show runs, GPU seconds and tokens per day, model, key or tag."""
    groups = by or [UsageGroup.DAY]
    start = datetime.now(UTC) - timedelta(days=days)
    everyone = all_users or user is not None
    report = call_runner(
        lambda client: (
            client.admin.usage(user=user, group_by=groups, start=start)
            if everyone
            else client.usage(group_by=groups, start=start)
        ),
        admin=everyone,
    )
    columns = [*(group.value for group in groups), "runs", "failed", "GPU s", "queue s", "tokens", "output"]
    rows = [
        (
            *(_group(row, group) for group in groups),
            row.runs,
            row.failed,
            f"{row.gpu_seconds:,.1f}",
            f"{row.queue_seconds:,.1f}",
            f"{row.tokens_in:,} + {row.tokens_out:,}",
            file_size(row.output_bytes),
        )
        for row in report.rows
    ]
    print_result(report, table(columns, rows))


def _group(row: UsageRow, group: UsageGroup) -> object:
    if group in _PERIODS:
        return row.period and row.period.strftime(_PERIODS[group])
    return getattr(row, _FIELDS[group])
