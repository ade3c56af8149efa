"""`python -m benchmarks.code_metrics [--tree DIR]`: the code metrics of a checkout as a Markdown table.

The checkout needs its virtual environment (`make setup`). Traces are taken on a running system whose GPU
runs take a millisecond. Of several repetitions the smallest counts: loops that tick in the window add to it.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.code_metrics import source
from benchmarks.code_metrics.statements import round_trips
from benchmarks.code_metrics.system import WINDOW_S, Trace, TracedSystem, traced_system
from infra.class_names import duplicate_class_names

MODEL, REGION = "llama3.2-1b", "US"
REPETITIONS = 30


async def submit_job(system: TracedSystem) -> str:
    """The address of a generation, after the window in which it should have been completed."""
    url = f"{system.credentials['runner_url']}/api/v1/jobs"
    body = {"kind": "generation", "model": MODEL, "region": REGION, "prompt": "a cat"}
    answer = await system.http.post(url, json=body, headers=_headers(system))
    answer.raise_for_status()
    await asyncio.sleep(WINDOW_S)
    return f"{url}/{answer.json()['job_id']}"


async def is_completed(system: TracedSystem, job_url: str) -> bool:
    job = await system.http.get(job_url, headers=_headers(system))
    return bool(job.json()["status"] == "completed")


def _headers(system: TracedSystem) -> dict[str, str]:
    return {"Authorization": f"Bearer {system.credentials['admin_key']}"}


async def trace_job(system: TracedSystem) -> Trace | None:
    """None: the job was not completed inside the window."""
    urls: list[str] = []

    async def submit() -> None:
        urls.append(await submit_job(system))

    trace = await system.trace("beacon_runner", submit)
    return trace if await is_completed(system, urls[0]) else None


async def trace_inference(system: TracedSystem, number: int) -> Trace:
    headers = {"Authorization": f"Bearer {system.credentials['service_token']}"}
    body = {
        "request_id": f"metrics-{number}",
        "model": MODEL,
        "region": REGION,
        "input": {"prompt": "a cat"},
        "tier": "admin",
        "failover": "pinned",
        "fence": 1,
    }

    async def infer() -> None:
        answer = await system.http.post(
            f"{system.credentials['router_url']}/inference", json=body, headers=headers
        )
        answer.raise_for_status()

    return await system.trace("beacon_router", infer)


async def statements_of_a_job(system: TracedSystem) -> tuple[int, int]:
    """The stretch of the log ends before the job is read. Polls of idle loops are not in every stretch."""
    await system.log_statements()
    counts = []
    for _ in range(REPETITIONS):
        before = len(system.statement_log())
        url = await submit_job(system)
        log = system.statement_log()[before:]
        if await is_completed(system, url):
            counts.append(round_trips(log))
    return min(counts, default=(0, 0))


async def measure(tree: Path, *, show: bool) -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="beacon-metrics-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        async with traced_system(tree, Path(folder)) as system:
            for _ in range(3):
                await submit_job(system)
            jobs = [trace for _ in range(REPETITIONS) if (trace := await trace_job(system)) is not None]
            for number in range(3):
                await trace_inference(system, -1 - number)
            inferences = [await trace_inference(system, number) for number in range(REPETITIONS)]
            trips, transactions = await statements_of_a_job(system)
    job, inference = (
        _smallest(jobs, lambda trace: trace.functions),
        _smallest(inferences, lambda trace: trace.total),
    )
    lines, files = source.policy_size(tree)
    if show:
        _show(job, tree)
        _show(inference, tree)
        sys.stderr.write("\n".join(source.internal_uses(tree)) + "\n")
    return [
        ("one generation, accept to record: own functions / modules", f"{job.functions} / {job.files}"),
        ("one generation: Postgres round trips / transactions", f"{trips} / {transactions}"),
        ("one warm POST /inference: own calls / files", f"{inference.total} / {inference.files}"),
        ("one warm POST /inference: classes of records constructed", str(len(inference.records))),
        ("scheduling policy: lines / files", f"{lines:,} / {files}"),
        ("product code (services + libs): lines", f"{source.product_lines(tree):,}"),
        ("public class names defined twice", str(len(duplicate_class_names(tree)))),
        ("uses of other packages' internals", str(len(source.internal_uses(tree)))),
    ]


def _smallest(traces: list[Trace], size: Callable[[Trace], int]) -> Trace:
    if not traces:
        raise SystemExit("no job was completed inside its window: is the machine overloaded?")
    return min(traces, key=size)


def _show(trace: Trace, tree: Path) -> None:
    for (file, name), count in trace.calls.items():
        sys.stderr.write(f"{count:4} {Path(file).relative_to(tree)} {name}\n")
    sys.stderr.write(f"records: {trace.records}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code_metrics", description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="the checkout to measure")
    parser.add_argument("--show", action="store_true", help="list what was counted")
    options = parser.parse_args()
    rows = asyncio.run(measure(options.tree.resolve(), show=options.show))
    print("| what | value |\n|---|---:|")
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
