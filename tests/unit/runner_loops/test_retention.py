from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import CollectorRegistry

from beacon_config import LiveConfig
from beacon_config.retention import RetentionConfig
from beacon_contracts.jobs import JobState
from beacon_lifecycle import ManualClock, RunResult
from beacon_redis import RedisAddress
from beacon_runner.domain.jobs.retention import Removal, RetentionCandidate
from beacon_runner.maintenance.retention import Retention
from beacon_runner.wiring.loops import RelayStore, Transport, build_relay
from tests.unit.runner_domain.factories import JOB, shipped_config

YEAR_S = 365 * 86_400.0
OLD = RetentionCandidate(JOB, JobState.COMPLETED, 1, submitted_s=YEAR_S, ended_s=YEAR_S)
LIVE = replace(OLD, state=JobState.QUEUED, ended_s=None)


@dataclass
class FakeRetentionStore:
    jobs: list[RetentionCandidate] = field(default_factory=list)
    finds: int = 0
    removed: list[tuple[Removal, RetentionCandidate]] = field(default_factory=list)

    async def find(self, removal: Removal, age_s: float, limit: int) -> Sequence[RetentionCandidate]:
        self.finds += 1
        return self.jobs[:limit]

    async def remove(self, removal: Removal, jobs: Sequence[RetentionCandidate]) -> int:
        self.removed += [(removal, job) for job in jobs]
        return len(jobs)


async def test_only_expired_data_is_removed() -> None:
    store = FakeRetentionStore([OLD, LIVE])
    assert await Retention(store, RetentionConfig).run_once() == RunResult(4)
    live_job = [removal for removal, job in store.removed if job is LIVE]
    assert live_job == [Removal.IDEMPOTENCY_KEYS]


async def test_a_full_batch_is_followed_by_another() -> None:
    store = FakeRetentionStore([OLD, OLD])
    assert (await Retention(store, RetentionConfig, batch=2).run_once()).more


async def test_a_full_batch_of_which_nothing_expired_ends_the_run() -> None:
    store = FakeRetentionStore([replace(LIVE, submitted_s=0)] * 2)
    assert await Retention(store, RetentionConfig, batch=2).run_once() == RunResult(0)


async def test_the_relay_checks_retention_at_the_configured_interval() -> None:
    clock, store = ManualClock(), FakeRetentionStore()
    unused: Any = None
    config = shipped_config().model_copy(update={"retention": RetentionConfig(check_every_s=40)})
    address = RedisAddress("redis://127.0.0.1:1/0")
    transport = Transport(LiveConfig(config), address, CollectorRegistry(), clock)
    relay = build_relay(transport, RelayStore(unused, unused, unused, store, *[unused] * 4))
    (retention,) = [service for service in relay if service.name == "retention"]
    await retention.start()
    await clock.advance(0)  # the first run
    await clock.advance(39)
    finds = [store.finds]
    await clock.advance(1)
    finds.append(store.finds)
    await retention.stop()
    assert finds == [len(Removal), 2 * len(Removal)]
