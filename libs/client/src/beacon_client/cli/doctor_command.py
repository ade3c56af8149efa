"""`beacon doctor`: is everything there, and what to do where it is not."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from beacon_client.checkup import Patient, examine
from beacon_client.cli.config_commands import DEFAULT
from beacon_client.cli.exits import Exit
from beacon_client.cli.output import AsJson, say
from beacon_client.credentials import find_credentials
from beacon_client.findings import Finding, Verdict
from beacon_lifecycle.clock import SystemClock

MARKS = {
    Verdict.OK: "[green]✓[/]",
    Verdict.WARNING: "[yellow]![/]",
    Verdict.FAILED: "[red]✗[/]",
    Verdict.SKIPPED: "[dim]-[/]",
}


def doctor(_json: AsJson = False) -> None:
    """Check configuration, runner, Postgres, Redis, migrations, router, backends, key and clock."""
    config = Path(os.environ.get("BEACON_CONFIG") or DEFAULT)
    patient = Patient(find_credentials(os.environ), dict(os.environ), config)
    findings = asyncio.run(examine(patient, SystemClock()))
    say([asdict(finding) for finding in findings], _shown(findings))
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(Exit.FAILED)


def _shown(findings: list[Finding]) -> Table:
    made = Table.grid(padding=(0, 2))
    for finding in findings:
        advice = f"\n[dim]{escape(finding.what_to_do)}[/]" if finding.what_to_do else ""
        made.add_row(MARKS[finding.verdict], f"[bold]{finding.name}[/]", escape(finding.detail) + advice)
    return made
