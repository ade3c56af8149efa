"""Terminal output of the stack."""

import os

from rich.console import Console
from rich.markup import escape

from beacon_contracts.credentials import Credentials
from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home

COLOURS = {"runner": "cyan", "router": "magenta"}
WIDTH = 12
PIPE_WIDTH = 160


class Terminal:
    """Readable lines on standard output, errors on standard error."""

    def __init__(self) -> None:
        self.out = _console(stderr=False)
        self._errors = _console(stderr=True)

    def step(self, sentence: str) -> None:
        self.out.print(f"[bold]==>[/] {escape(sentence)}")

    def log_line(self, component: str, line: str) -> None:
        colour = COLOURS.get(component, "green")
        self.out.print(f"[{colour}]{component:<{WIDTH}}[/] {escape(line)}")

    def ready(self, credentials: Credentials, home: Home) -> None:
        rows = {
            "portal": credentials.portal_url,
            "runner": f"{credentials.runner_url}/docs",
            "router": credentials.router_url,
            "user key": credentials.user_key,
            "admin key": credentials.admin_key,
            "logs": str(home.logs),
            "keys": str(home.credentials),
        }
        self.step("ready; Ctrl-C stops it")
        for name, value in rows.items():
            self.out.print(f"    {name:<10} [bold]{escape(value)}[/]")

    def failure(self, error: DevstackError) -> None:
        where = f"\n    its log: {error.log}" if error.log is not None else ""
        self._errors.print(f"[bold red]{escape(error.component)}:[/] {escape(error.reason)}{escape(where)}")


def _console(*, stderr: bool) -> Console:
    """The width of the terminal, or a fixed width for files and pipes."""
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console
