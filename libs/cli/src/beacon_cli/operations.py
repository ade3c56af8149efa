"""Confirmation of destructive commands, and the progress of operations on many jobs."""

import asyncio
import sys
from typing import Annotated

import typer

from beacon_cli.errors import InputError
from beacon_cli.global_options import wants_json
from beacon_cli.output.printing import facts, print_result
from beacon_client.runner import RunnerClient
from beacon_contracts.operations import OperationState, OperationView

POLL_S = 0.5

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal; scripts must give --yes."""
    if yes:
        return
    if wants_json() or not sys.stdin.isatty():
        raise InputError(f"{question} Give --yes to confirm.")
    typer.confirm(question, abort=True, err=True)


async def finished(client: RunnerClient, operation: OperationView) -> OperationView:
    """The operation after its end."""
    while operation.state is OperationState.RUNNING:
        await asyncio.sleep(POLL_S)
        operation = await client.operation(operation.operation_id)
    return operation


def show_operation(found: OperationView) -> None:
    pairs = [
        ("operation", found.operation_id),
        ("state", found.state),
        ("jobs", found.matched),
        ("changed", found.changed),
    ]
    print_result(found, facts(pairs))
