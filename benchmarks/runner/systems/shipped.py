"""Shared by Beacon's systems: configuration, users, and a queue filled by Beacon's code."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beacon_config import BeaconConfig, LiveConfig, load_config
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.jobs import GenerationJob
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_redis import RedisAddress
from beacon_runner.domain.jobs.admission import Admission
from beacon_runner.domain.jobs.job_ids import new_job_ids
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.domain.queue.lanes import lane_at_submission
from beacon_runner.maintenance.publisher import OutboxPublisher
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.outbox import PostgresOutbox
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from beacon_runner.wiring.loops import Transport
from beacon_telemetry import new_registry

CONFIG = Path("config/beacon.toml")
MODEL = "llama3.2-1b"
CHUNK = 1_000


def shipped_config(changes: dict[str, dict[str, Any]] | None = None) -> BeaconConfig:
    """The shipped defaults, with whole settings replaced by name: `{"runner": {"claim_batch": 500}}`."""
    config = load_config(CONFIG, os.environ)
    update = {
        section: getattr(config, section).model_copy(update=values)
        for section, values in (changes or {}).items()
    }
    return config.model_copy(update=update)


def wide_config(slots: int, claim_batch: int) -> BeaconConfig:
    """Three pools as shipped, with many slots: the shipped 13 are for jobs of seconds.

    What may be in flight is raised too, or a claim would take 128 jobs: the shipped memory has room for no
    more of the largest inputs.
    """
    in_flight = {"in_flight_jobs": 32_000, "in_flight_bytes": 4 * 2**30}
    config = shipped_config({"runner": {"claim_batch": claim_batch, **in_flight}})
    wide = {"slots": slots // len(config.pools), "classes": list(JobClass)}
    pools = {name: pool.model_copy(update=wide) for name, pool in config.pools.items()}
    return config.model_copy(update={"pools": pools})


def open_transport(config: BeaconConfig) -> Transport:
    return Transport(LiveConfig(config), RedisAddress(os.environ["REDIS_URL"]), new_registry(), SystemClock())


def open_database(size: int = 6) -> Database:
    return Database(os.environ["DATABASE_URL"], size=size)


class Filler:
    """Submits and publishes jobs by the code of the API and the publisher."""

    def __init__(self, config: BeaconConfig, database: Database, transport: Transport) -> None:
        self._config = config
        self._admission = Admission(config)
        self._submissions = PostgresSubmissions(database, SystemClock(), 10_000_000)
        self._publisher = OutboxPublisher(PostgresOutbox(database), transport.queue, transport.metrics)
        self._admin = transport.queue_admin

    async def submit(self, count: int, users: Sequence[UserId], prompt: str = "x") -> None:
        """Submit so many jobs, users round-robin."""
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            await self._submissions.submit(
                [self.job(users[(start + n) % len(users)], prompt) for n in range(size)]
            )

    async def submit_batch(self, count: int, user: UserId, prompt: str) -> None:
        """Submit so many jobs of one user as one batch, which stays in one lane."""
        jobs = [self.job(user, prompt)._replace(id=job_id, batch=True) for job_id in new_job_ids(count)]
        for start in range(0, count, CHUNK):
            await self._submissions.submit(jobs[start : start + CHUNK])

    async def submit_each(self, prompts: Mapping[UserId, str]) -> None:
        """Submit one job of each user concurrently."""
        await self._submissions.submit([self.job(user, prompt) for user, prompt in prompts.items()])

    async def publish(self) -> None:
        """Publish the whole outbox to Redis, as a relay does."""
        await self._admin.open()
        while (await self._publisher.run_once()).count:
            pass

    def job(self, user: UserId, prompt: str) -> NewJob:
        job_id = new_uuid()
        tier = "admin"  # no limits
        return NewJob(
            id=JobId(job_id),
            user=user,
            tier=tier,
            job_class=self._config.tiers[tier].job_class,
            lane=lane_at_submission(self._config.lanes, user),
            admitted=self._admission.admit(
                GenerationJob(kind="generation", model=MODEL, prompt=prompt), job_id.int
            ),
        )


def new_users(count: int) -> list[UserId]:
    return [UserId(new_uuid()) for _ in range(count)]
