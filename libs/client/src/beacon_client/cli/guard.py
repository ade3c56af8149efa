"""Turns whatever a command raises into one clear message and an exit code."""

import asyncio
from typing import Any

import typer
from typer.core import TyperGroup

from beacon_client.cli.exits import Exit, exit_of
from beacon_client.cli.output import choose_json, complain, complain_plainly
from beacon_client.credentials import CredentialsError
from beacon_client.errors import BeaconError


class InputError(Exception):
    """What the person gave cannot be used; the message says why."""


class MissingError(Exception):
    """What the person named is not there."""


class GuardedGroup(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        choose_json(False)
        try:
            return super().invoke(ctx)
        except BeaconError as error:
            complain(error)
            raise typer.Exit(exit_of(error)) from error
        except MissingError as error:
            complain_plainly(str(error))
            raise typer.Exit(Exit.NOT_FOUND) from error
        except (InputError, CredentialsError) as error:
            complain_plainly(str(error))
            raise typer.Exit(Exit.USAGE) from error
        except BrokenPipeError:
            raise  # whoever read has read enough: no message
        except OSError as error:
            complain_plainly(f"cannot write: {error.strerror}")
            raise typer.Exit(Exit.FAILED) from error
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raise typer.Exit(Exit.INTERRUPTED) from error
