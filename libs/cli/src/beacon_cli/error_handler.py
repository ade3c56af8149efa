"""Turns the errors of a command into one message and an exit code."""

import asyncio
from importlib import import_module
from typing import Any

import typer

from beacon_cli.exit_codes import Exit
from beacon_cli.global_options import choose_json
from beacon_cli.lazy_group import LazyGroup


class ErrorHandlingGroup(LazyGroup):
    """Reports every expected error on standard error."""

    def invoke(self, ctx: Any) -> Any:
        choose_json(False)
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # a broken pipe: the reader has closed it, no message
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raise typer.Exit(Exit.INTERRUPTED) from error
        except Exception as error:
            code = import_module("beacon_cli.output.error_report").report(error)
            if code is None:
                raise
            raise typer.Exit(code) from error
