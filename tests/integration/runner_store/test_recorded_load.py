"""The recorded executions as a load that `beacon simulate` reads."""

import csv
from pathlib import Path

import asyncpg

from beacon_config import load_config
from beacon_router.scheduler_config import topology_of
from beacon_router.simulation.load import read_load
from tests.integration.runner_store.harness import PIPELINE, StoreHarness

ROOT = Path(__file__).parents[3]


async def test_recorded_executions_are_a_load_for_the_simulation(
    harness: StoreHarness, database_url: str, tmp_path: Path
) -> None:
    await harness.submit()
    await harness.run(await harness.claim(), "a cat")
    await harness.submit()  # it has not run
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch((ROOT / "infra" / "recorded_load.sql").read_text(encoding="utf-8"))
    await connection.close()
    path = tmp_path / "load.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0].keys())
        writer.writerows(row.values() for row in rows)
    config = load_config(ROOT / "config" / "beacon.toml", {})
    (arrival,) = read_load(path, topology_of(config), list(config.tiers))
    assert (arrival.arrival_s, arrival.model, arrival.region, arrival.run_s) == (0.0, "flux", "US", 1.25)
    assert arrival.tier in config.tiers


async def test_each_step_of_a_pipeline_is_a_request_of_the_load(
    harness: StoreHarness, database_url: str
) -> None:
    await harness.submit(PIPELINE)
    await harness.run(await harness.claim(), "a town")
    await harness.run(await harness.claim(), "a picture")
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch((ROOT / "infra" / "recorded_load.sql").read_text(encoding="utf-8"))
    await connection.close()
    assert {row["model"] for row in rows} == {"enhance", "draw"}
