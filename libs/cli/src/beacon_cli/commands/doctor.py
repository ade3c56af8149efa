"""`beacon doctor`: checks a running system."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from beacon_cli.checks.findings import Finding, Verdict
from beacon_cli.checks.system import Target, run_checks
from beacon_cli.commands.live_config import DEFAULT
from beacon_cli.connect import api_key
from beacon_cli.exit_codes import Exit
from beacon_cli.output.printing import AsJson, print_result
from beacon_client.credentials import find_credentials
from beacon_lifecycle.clock import SystemClock

MARKS = {
    Verdict.OK: "[green]✓[/]",
    Verdict.WARNING: "[yellow]![/]",
    Verdict.FAILED: "[red]✗[/]",
    Verdict.SKIPPED: "[dim]-[/]",
}


def doctor(_json: AsJson = False) -> None:
    """Check configuration, runner, Postgres, Redis, migrations, router, backends, key and clock.

    Exit code 1 when a check fails or a backend is unusable. With --admin the administrator's key is checked.
    """
    credentials = find_credentials(os.environ)
    config = Path(credentials.config_path or DEFAULT)
    target = Target(credentials, api_key(credentials), dict(os.environ), config)
    findings = asyncio.run(run_checks(target, SystemClock()))
    print_result([asdict(finding) for finding in findings], _shown(findings))
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(Exit.FAILED)


def _shown(findings: list[Finding]) -> Table:
    made = Table.grid(padding=(0, 2))
    for finding in findings:
        advice = f"\n[dim]{escape(finding.what_to_do)}[/]" if finding.what_to_do else ""
        made.add_row(MARKS[finding.verdict], f"[bold]{finding.name}[/]", escape(finding.detail) + advice)
    return made
