"""The usage of interactive requests reaches the store in batches."""

from collections.abc import Sequence
from typing import Any

import pytest

from beacon_contracts.ids import KeyId, UserId, new_uuid
from beacon_runner.application import interactive_usage
from beacon_runner.application.interactive_usage import UsageRecorder
from beacon_runner.domain.accounts.usage import InteractiveUsage
from beacon_runner.domain.errors import StoreUnavailableError


class Store:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.available = True

    async def today(self, *_: Any) -> Any:
        raise AssertionError

    async def add_interactive(self, runs: Sequence[InteractiveUsage]) -> None:
        if not self.available:
            raise StoreUnavailableError
        self.batches.append([run.model for run in runs])

    async def sums(self, *_: Any) -> Any:
        raise AssertionError


def a_run(model: str) -> InteractiveUsage:
    return InteractiveUsage(UserId(new_uuid()), KeyId(new_uuid()), model, "US", 0, 0, 1, 0, 0, failed=False)


async def test_runs_are_written_together_and_once() -> None:
    store = Store()
    recorder = UsageRecorder(store)
    for model in ("a", "b"):
        recorder.add(a_run(model))
    recorder.add(None)
    assert (await recorder.flush()).count == 2
    assert (await recorder.flush()).count == 0
    assert store.batches == [["a", "b"]]


async def test_the_newest_runs_wait_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive_usage, "MAX_KEPT_RUNS", 2)
    store = Store()
    store.available = False
    recorder = UsageRecorder(store)
    for model in ("a", "b", "c"):
        recorder.add(a_run(model))
    with pytest.raises(StoreUnavailableError):
        await recorder.flush()
    await recorder.close()  # what is lost is logged
    store.available = True
    await recorder.flush()
    assert store.batches == [["b", "c"]]
