"""Models, pipelines, prices, and the state of the regions."""

from typing import Annotated

import typer
from rich.console import RenderableType

from beacon_cli.config_changes import apply_change
from beacon_cli.connect import call_runner
from beacon_cli.output.formatting import backend_health, seconds
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_contracts.catalogue import RegionView

models = typer.Typer(help="List the models; pause and resume one (administrators).")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model.")]


@models.callback(invoke_without_command=True)
def show_models(context: typer.Context, _json: AsJson = False) -> None:
    """List the models and where they run."""
    if context.invoked_subcommand is not None:
        return
    found = call_runner(lambda client: client.models())
    rows = [
        (one.id, ", ".join(one.regions), seconds(one.expected_run_s), one.limit, seconds(one.max_duration_s))
        for one in found
    ]
    print_result(found, table(("model", "regions", "runs about", "at once", "longest"), rows))


@models.command("pause")
def pause_model(model: Model, _json: AsJson = False) -> None:
    """Start no request for a model: they are accepted and wait. Running ones end."""
    apply_change(lambda client: client.configuration.pause_model(model))


@models.command("resume")
def resume_model(model: Model, _json: AsJson = False) -> None:
    """End the pause of a model."""
    apply_change(lambda client: client.configuration.resume_model(model))


def features(_json: AsJson = False) -> None:
    """List the pipelines and their steps."""
    found = call_runner(lambda client: client.features())
    rows = [(one.name, " → ".join(step.name for step in one.steps), ", ".join(one.inputs)) for one in found]
    print_result(found, table(("feature", "steps", "input"), rows))


def regions(_json: AsJson = False) -> None:
    """Show the regions: queues, slots, backends and their health, loaded models, shared caps."""
    found = call_runner(lambda client: client.regions())
    columns = (
        "region",
        "waiting",
        "retry",
        "running",
        "slots",
        "completed",
        "failed",
        "backend",
        "state",
        "loaded",
    )
    rows = [row for region in found.regions for row in _region_rows(region)]
    caps = [(cap.name, cap.used, cap.cap) for cap in found.groups.values()]
    parts: list[RenderableType] = ["", table(("shared cap", "used", "cap"), caps)] if caps else []
    print_result(found, table(columns, rows), *parts)


def _region_rows(region: RegionView) -> list[tuple[object, ...]]:
    state = region.state
    if state is None:
        return [(region.name, "no router responds", *[None] * 8)]
    totals = (region.name, state.main, state.retry, state.busy, state.slots, state.completed, state.failed)
    rows: list[tuple[object, ...]] = []
    for backend in state.backends:
        head = totals if not rows else (None,) * len(totals)
        loaded = ", ".join(backend.loaded_models)
        use = f"{backend.name} {backend.busy}/{backend.slots}"
        rows.append((*head, use, backend_health(backend.breaker), loaded))
    return rows or [(*totals, None, None, None)]


def prices(_json: AsJson = False) -> None:
    """Show the prices of a skip, by the duration of the job."""
    found = call_runner(lambda client: client.skip_pricing())
    rows = [
        ("longer" if one.up_to_s is None else f"up to {seconds(one.up_to_s)}", one.price) for one in found
    ]
    print_result(found, table(("duration of the job", "credits"), rows))
