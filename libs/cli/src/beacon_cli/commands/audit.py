"""`beacon audit`: who changed what. Needs an administrator's key."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from beacon_cli.commands.user import find_user
from beacon_cli.connect import call_runner
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.audit import AuditAction, AuditEntryView


def audit(
    *,
    actor: Annotated[str | None, typer.Option(help="Changes by this user: name, or id (user_…).")] = None,
    action: Annotated[AuditAction | None, typer.Option(help="Changes of this kind.")] = None,
    target: Annotated[str | None, typer.Option(help="Changes of this id or name.")] = None,
    since: Annotated[datetime | None, typer.Option(help="From this time (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Before this time (UTC).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 50,
    _json: AsJson = False,
) -> None:
    """List changes of users, keys, credit, webhooks, queues and jobs of others, newest first."""

    async def work(client: RunnerClient) -> list[AuditEntryView]:
        found: list[AuditEntryView] = []
        entries = client.admin.audit(
            actor=None if actor is None else (await find_user(client, actor)).id,
            action=action,
            target=target,
            since=since and since.replace(tzinfo=UTC),
            until=until and until.replace(tzinfo=UTC),
        )
        async for entry in entries:
            found.append(entry)
            if len(found) == limit:
                break
        return found

    found = call_runner(work, admin=True)
    rows = [
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            entry.actor.name,
            entry.actor.key or "",
            entry.action,
            entry.target,
            ", ".join(f"{name}={value}" for name, value in entry.details.items()),
        )
        for entry in found
    ]
    print_result(found, table(("time (UTC)", "actor", "key", "action", "target", "details"), rows))
