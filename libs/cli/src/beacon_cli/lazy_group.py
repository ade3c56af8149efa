"""A command group that imports a command's module only when the command runs: `--help` stays fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is defined (`module:attribute`), and how the list of commands shows it."""

    target: str
    panel: str
    summary: str

    def load(self, name: str) -> Any:
        """The real command: of a function, or a whole group."""
        module, _, attribute = self.target.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            command = typer.main.get_command(found)
        else:
            single = typer.Typer(add_completion=False)
            single.command(name)(found)
            command = typer.main.get_command(single)
        command.name = name
        return command


class LazyGroup(TyperGroup):
    """Lists commands by their summaries; loads the one that is called."""

    lazy_commands: Mapping[str, LazyCommand] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is click's
        return list(self.lazy_commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """A placeholder for help and completion of names."""
        command = self.lazy_commands.get(cmd_name)
        if command is None:
            return None
        return TyperCommand(cmd_name, help=command.summary, rich_help_panel=command.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, placeholder, rest = super().resolve_command(ctx, args)
        if name is None or placeholder is None:
            return name, placeholder, rest
        return name, self.lazy_commands[name].load(name), rest
