"""`beacon demand`: the work for GPUs, as autoscalers read it. Needs an administrator's key."""

from typing import Annotated

import typer

from beacon_cli.connect import call_runner
from beacon_cli.output.formatting import seconds
from beacon_cli.output.printing import AsJson, print_result, table
from beacon_contracts.demand import DemandTotals, ModelDemand

COLUMNS = ("model", "region", "waiting", "running", "GPU time", "wait p50", "wait p90", "slots", "needed")


def demand(
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="Only these models.")] = None,
    region: Annotated[list[str] | None, typer.Option("--region", help="Only these regions.")] = None,
    target_wait: Annotated[float, typer.Option(min=1, help="Seconds, for the slots needed.")] = 60.0,
    _json: AsJson = False,
) -> None:
    """Show waiting and running work, its GPU time, and the slots that would do it within a target."""
    found = call_runner(
        lambda client: client.admin.demand(
            models=model or (), regions=region or (), target_wait_s=target_wait
        ),
        admin=True,
    )
    rows = [_row(one.model, one.region, one, one) for one in found.models if one.waiting or one.running]
    missing = [f"no answer from {url}" for url in found.unavailable_routers]
    print_result(found, table(COLUMNS, [*rows, _row("total", "", found.total)]), *missing)


def _row(model: str, region: str, work: DemandTotals, waits: ModelDemand | None = None) -> tuple[object, ...]:
    return (
        model,
        region,
        work.waiting,
        work.running,
        seconds(work.gpu_seconds),
        seconds(waits.wait_p50_s if waits else None),
        seconds(waits.wait_p90_s if waits else None),
        work.slots,
        work.slots_needed,
    )
