"""`beacon users` and `beacon keys`. Needs an administrator's key."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from beacon_cli.connect import call_runner
from beacon_cli.errors import MissingError
from beacon_cli.operations import Yes, confirm, finished, show_operation
from beacon_cli.output.formatting import ago
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.accounts import DisabledJobs, KeyCreated, NewKey, Scope, UserView
from beacon_contracts.operations import OperationView

users = typer.Typer(help="Users, tiers and credit (administrators).", no_args_is_help=True)
keys = typer.Typer(help="Keys of users (administrators).", no_args_is_help=True)

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name, or id: user_…")]


@users.callback()
def _users_group() -> None:
    """Users, tiers and credit (administrators)."""


@keys.callback()
def _keys_group() -> None:
    """Keys of users (administrators)."""


@users.command("list")
def list_users(_json: AsJson = False) -> None:
    """List all users."""
    _print(call_runner(_all_users, admin=True))


@users.command("add")
def add_user(
    name: str,
    tier: Annotated[
        str | None, typer.Option(help="The tier of the user [default: the lowest].", show_default=False)
    ] = None,
    _json: AsJson = False,
) -> None:
    """Create a user with a first key. The key is shown only now."""
    made = call_runner(lambda client: client.admin.add_user(name, tier), admin=True)
    print_result(
        made, facts([("user", made.id), ("name", made.name), ("tier", made.tier), ("key", made.key)])
    )


@users.command("tier")
def set_tier(user: User, tier: str, _json: AsJson = False) -> None:
    """Change a user's tier."""
    _print([call_runner(lambda client: _change(client, user, tier=tier), admin=True)])


@users.command("weight")
def set_weight(
    user: User,
    weight: Annotated[float, typer.Argument(min=0.01, max=100, help="Users start with 1.")],
    _json: AsJson = False,
) -> None:
    """Change a user's weight: with 2 a user gets twice the GPU time of another one of its tier."""

    async def work(client: RunnerClient) -> UserView:
        return await client.admin.change_user((await find_user(client, user)).id, weight=weight)

    _print([call_runner(work, admin=True)])


@users.command("disable")
def disable(
    user: User,
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Cancel the user's live jobs instead of holding them.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Disable a user: all keys are refused, and live jobs are held until the user is enabled."""
    jobs = DisabledJobs.CANCEL if cancel_jobs else DisabledJobs.HOLD

    async def work(client: RunnerClient) -> UserView:
        found = await find_user(client, user)
        return await client.admin.change_user(found.id, disabled=True, jobs=jobs)

    _print([call_runner(work, admin=True)])


@users.command("enable")
def enable(user: User, _json: AsJson = False) -> None:
    """Enable a disabled user; held jobs continue."""
    _print([call_runner(lambda client: _change(client, user, disabled=False), admin=True)])


@users.command("delete")
def delete_user(user: User, yes: Yes = False, _json: AsJson = False) -> None:
    """Delete a user with all jobs, files and keys; the ledger stays, without the name."""
    confirm(f"Delete {user} with all jobs, files and keys?", yes=yes)

    async def work(client: RunnerClient) -> OperationView:
        found = await find_user(client, user)
        return await finished(client, await client.admin.delete_user(found.id))

    show_operation(call_runner(work, admin=True))


@users.command("credit")
def credit(
    user: User,
    amount: Annotated[
        int, typer.Argument(help="Credits to add; a negative number, after --, removes credit.")
    ],
    note: Annotated[str, typer.Option(help="A note for the ledger.")] = "",
    _json: AsJson = False,
) -> None:
    """Add credit to a user, or remove it."""

    async def work(client: RunnerClient) -> UserView:
        found = await find_user(client, user)
        await client.admin.give_credit(found.id, amount, note)
        return await find_user(client, found.id)

    _print([call_runner(work, admin=True)])


@keys.command("list")
def list_keys(user: User, _json: AsJson = False) -> None:
    """List a user's keys, without the secrets."""

    async def work(client: RunnerClient) -> list[object]:
        return list(await client.admin.keys((await find_user(client, user)).id))

    found = call_runner(work, admin=True)
    columns = ("id", "name", "hint", "scopes", "created_at", "expires_at", "revoked_at")
    rows = [[_cell(getattr(key, column)) for column in columns] for key in found]
    print_result(found, table([column.removesuffix("_at") for column in columns], rows))


@keys.command("add")
def add_key(
    user: User,
    name: Annotated[str, typer.Option(help="A name for the key.")] = "",
    scope: Annotated[list[Scope] | None, typer.Option(help="user, admin or service; repeatable.")] = None,
    expires: Annotated[datetime | None, typer.Option(help="Expiry (UTC).")] = None,
    _json: AsJson = False,
) -> None:
    """Create another key for a user. The key is shown only now."""
    wanted = NewKey(
        name=name, scopes=scope or [Scope.USER], expires_at=expires and expires.replace(tzinfo=UTC)
    )

    async def work(client: RunnerClient) -> object:
        return await client.admin.add_key((await find_user(client, user)).id, wanted)

    made = call_runner(work, admin=True)
    print_result(
        made, facts((column, _cell(getattr(made, column))) for column in ("id", "name", "scopes", "key"))
    )


@keys.command("rotate")
def rotate_key(
    user: User, key_id: Annotated[str, typer.Argument(metavar="KEY")], _json: AsJson = False
) -> None:
    """Replace a key by a new one with the same name and scopes. The new key is shown only now."""

    async def work(client: RunnerClient) -> KeyCreated:
        found = await find_user(client, user)
        return await client.admin.rotate_key(found.id, key_id)

    made = call_runner(work, admin=True)
    print_result(
        made, facts((column, _cell(getattr(made, column))) for column in ("id", "name", "scopes", "key"))
    )


@keys.command("revoke")
def revoke_key(
    user: User, key_id: Annotated[str, typer.Argument(metavar="KEY")], _json: AsJson = False
) -> None:
    """Revoke a key."""

    async def work(client: RunnerClient) -> None:
        await client.admin.revoke_key((await find_user(client, user)).id, key_id)

    call_runner(work, admin=True)
    print_result({"revoked": key_id}, f"{key_id} revoked")


async def _all_users(client: RunnerClient) -> list[UserView]:
    return [user async for user in client.admin.users()]


async def find_user(client: RunnerClient, named: str) -> UserView:
    async for user in client.admin.users():
        if named in (user.id, user.name):
            return user
    raise MissingError(f"there is no user {named!r}; `beacon users list` shows them")


async def _change(
    client: RunnerClient, named: str, *, tier: str | None = None, disabled: bool | None = None
) -> UserView:
    return await client.admin.change_user((await find_user(client, named)).id, tier=tier, disabled=disabled)


def _print(found: list[UserView]) -> None:
    rows = [
        (
            user.id,
            user.name,
            user.tier,
            f"{user.weight:g}",
            user.credit,
            ago(user.created_at),
            "disabled" if user.disabled_at else "",
        )
        for user in found
    ]
    print_result(found, table(("user", "name", "tier", "weight", "credit", "created", ""), rows))


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return ", ".join(map(str, value)) if isinstance(value, list) else value
