"""`beacon export`: all results of a job as a file."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from beacon_cli.commands.job import JobId
from beacon_cli.connect import call_runner
from beacon_client.runner import RunnerClient


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


def export(
    job_id: JobId,
    file_format: Annotated[ExportFormat, typer.Option("--format", "-f")] = ExportFormat.JSONL,
    target: Annotated[
        Path | None, typer.Option("--to", "-o", help="File to write; default: standard output.")
    ] = None,
) -> None:
    """Write every execution of a job as JSON lines or CSV."""

    async def work(client: RunnerClient) -> None:
        pieces = client.export(job_id, csv=file_format is ExportFormat.CSV)
        if target is None:
            async for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        partial = target.with_name(f"{target.name}.part")
        try:
            with partial.open("wb") as sink:
                async for piece in pieces:
                    sink.write(piece)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    call_runner(work)
