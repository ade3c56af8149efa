"""`beacon submit`: a job from a file, from standard input, or from flags."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from beacon_cli.attachments import Attachments, attach, parse_attachments
from beacon_cli.commands.watch import follow
from beacon_cli.connect import call_runner
from beacon_cli.errors import InputError
from beacon_cli.job_filters import text_pairs
from beacon_cli.job_flags import JobFlags, pairs
from beacon_cli.output.formatting import seconds
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_client.runner import RunnerClient
from beacon_contracts.jobs import JobAccepted


def submit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A JSON file with one job, or a list of jobs; - is standard input.", allow_dash=True
        ),
    ] = None,
    *,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="The prompt of a generation.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A model; repeatable.")] = None,
    region: Annotated[list[str] | None, typer.Option("--region", "-r", help="A region; repeatable.")] = None,
    question: Annotated[
        list[str] | None,
        typer.Option("--question", "-q", help="A question of a matrix: text or id=text; repeatable."),
    ] = None,
    feature: Annotated[str | None, typer.Option("--feature", "-f", help="The feature of a pipeline.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="name=value of the input; repeatable."),
    ] = None,
    attachments: Annotated[
        list[str] | None,
        typer.Option(
            "--file", help="name=@path: upload a file as a field of the input; or name=file_…; repeatable."
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", help="name=value for the model; JSON values; repeatable.")
    ] = None,
    duration: Annotated[float | None, typer.Option(help="Duration in seconds, for audio.")] = None,
    name: Annotated[str, typer.Option(help="A name to recognise the job by.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeatable.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(help="key=value to find it by; repeatable.")] = None,
    not_before: Annotated[datetime | None, typer.Option(help="Start at this time (UTC) or later.")] = None,
    expires_at: Annotated[
        datetime | None, typer.Option(help="End as expired if it has not ended by this time (UTC).")
    ] = None,
    wait_for_limit: Annotated[
        bool, typer.Option("--wait-for-limit", help="Wait until your limits allow it, instead of an error.")
    ] = False,
    webhook_url: Annotated[
        str | None, typer.Option(help="Send the job's events to this URL (see beacon webhooks).")
    ] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Never run in another region.")] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Idempotency key: repeated submissions with it store one job.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it to its end.")] = False,
    _json: AsJson = False,
) -> None:
    """Submit a job: from a file, from standard input, or from flags.

    beacon submit job.json · beacon submit -m flux -p "a cat" -w ·
    beacon submit -q "Why?" -m llama3.2-1b -m mistral-7b -r US -r EU ·
    beacon submit -f full_pipeline -i prompt="a city" ·
    beacon submit -m editor -p "at night" --file image=@photo.jpg
    """
    attached = parse_attachments(attachments)
    flags = JobFlags(
        prompt=prompt,
        models=model or [],
        regions=region or [],
        questions=question or [],
        feature=feature,
        given=pairs(given),
        params=pairs(param),
        duration=duration,
        name=name,
        pinned=pinned,
        options=_options(
            tag,
            metadata,
            not_before,
            expires_at,
            wait_for_limit=wait_for_limit,
            webhook_url=webhook_url,
        ),
        has_files=bool(attached) and file is None,
    )
    made = flags.job() or _read(file)
    if isinstance(made, dict):
        _submit_one(made, attached, idempotency_key, watch=watch)
    elif attached:
        raise InputError("--file is for one job, not for a list")
    else:
        _submit_all(made, idempotency_key)


def _options(
    tags: list[str] | None,
    metadata: list[str] | None,
    not_before: datetime | None,
    expires_at: datetime | None,
    *,
    wait_for_limit: bool,
    webhook_url: str | None,
) -> dict[str, Any]:
    """The options that are given."""
    options = {
        "tags": tags,
        "metadata": text_pairs(metadata),
        "not_before": not_before and not_before.replace(tzinfo=UTC).isoformat(),
        "expires_at": expires_at and expires_at.replace(tzinfo=UTC).isoformat(),
        "on_limit": "wait" if wait_for_limit else None,
        "webhook_url": webhook_url,
    }
    return {name: value for name, value in options.items() if value}


def _read(file: Path | None) -> dict[str, Any] | list[dict[str, Any]]:
    try:
        if file is None and sys.stdin.isatty():
            raise InputError("nothing to submit: give a file, flags, or a job on standard input (see --help)")
        content = sys.stdin.buffer.read() if file is None or str(file) == "-" else file.read_bytes()
        value = orjson.loads(content)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise InputError(f"{file or 'standard input'} is not JSON: {error}") from error
    if isinstance(value, dict) and set(value) == {"jobs"}:
        value = value["jobs"]
    if isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        return value
    raise InputError(f"{file or 'standard input'} holds neither a job nor a list of jobs")


def _submit_one(job: dict[str, Any], files: Attachments, key: str | None, *, watch: bool) -> None:
    async def work(client: RunnerClient) -> JobAccepted:
        return await client.submit(await attach(client, job, files), idempotency_key=key)

    accepted = call_runner(work)
    if watch:
        follow(accepted.job_id)
        return
    print_result(accepted, facts(_summary(accepted)))


def _submit_all(jobs: list[dict[str, Any]], key: str | None) -> None:
    accepted = call_runner(lambda client: client.submit_batch(jobs, idempotency_key=key))
    print_result(
        accepted,
        table(("job", "status", "class"), [(one.job_id, one.status, one.priority) for one in accepted]),
    )


def _summary(accepted: JobAccepted) -> list[tuple[str, object]]:
    return [
        ("job", accepted.job_id),
        ("status", accepted.status),
        ("class", accepted.priority),
        ("position", accepted.position),
        ("expected wait", seconds(accepted.estimated_wait_s) or None),
        ("next", f"beacon watch {accepted.job_id}"),
    ]
