"""In any order of events: the slots in use equal the open calls and never exceed the limits."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beacon_router.backends import BackendError, BackendResult
from beacon_router.scheduling import BackendSpec, GroupSpec, RequestId
from beacon_router.service.errors import DispatchError
from tests.unit.router.dispatch_harness import HeldCall, dispatch_harness, failure, topology

SLOTS = {"us": 2, "eu": 2, "asia": 1}
CAP = 3
GROUPED = ("us", "eu")
PLACE = topology(
    [
        BackendSpec(name, name.upper(), frozenset({"m", "n"}), slots, group="g" if name in GROUPED else None)
        for name, slots in SLOTS.items()
    ],
    groups=[GroupSpec("g", CAP)],
)
NAMES = st.sampled_from([f"r{number}" for number in range(8)])


class Dispatching(RuleBasedStateMachine):
    """Few names, so that a request id is often reused while its earlier result is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.opened = dispatch_harness(PLACE, breaker_failures=1_000)
        self.harness = self.do(self.opened.__aenter__())

    def teardown(self) -> None:
        """After all runs are cancelled, every slot is free."""
        try:
            for number in range(8):
                self.cancel(f"r{number}")
            self.do(self.harness.settle())
            assert self.open == []
            self.slots_are_those_of_open_calls()
        finally:
            self.do(self.opened.__aexit__(None, None, None))
            self.runner.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @property
    def calls(self) -> list[HeldCall]:
        """All calls, also ended ones."""
        return [call for backend in self.harness.backends.values() for call in backend.calls]

    @property
    def open(self) -> list[HeldCall]:
        return [call for call in self.calls if call.open]

    @rule(
        name=NAMES,
        fence=st.integers(0, 3),
        region=st.sampled_from(["US", "EU", "ASIA"]),
        pinned=st.booleans(),
        timeout_s=st.sampled_from([None, 1.0]),
    )
    def ask(self, name: str, fence: int, region: str, pinned: bool, timeout_s: float | None) -> None:
        async def asked() -> None:
            try:
                self.harness.submit(name, region=region, fence=fence, pinned=pinned, timeout_s=timeout_s)
            except DispatchError:
                return

        self.do(asked())

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        async def cancelled() -> None:
            try:
                self.harness.service.cancel(RequestId(name))
            except DispatchError:
                return

        self.do(cancelled())

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), retryable=st.booleans())
    def fail(self, data: st.DataObject, retryable: bool) -> None:
        call = data.draw(st.sampled_from(self.open))
        self.end(call, failure(retryable=retryable))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), failed=st.booleans(), cancel_first=st.booleans())
    def end_and_cancel_together(self, data: st.DataObject, failed: bool, cancel_first: bool) -> None:
        """The result and the cancellation are in the same step of the event loop."""
        call = data.draw(st.sampled_from(self.open))

        async def both() -> None:
            if cancel_first:
                self.harness.service.cancel(RequestId(call.call.id))
            call.end(failure() if failed else BackendResult(b'"done"'))
            if not cancel_first:
                self.harness.service.cancel(RequestId(call.call.id))

        self.do(both())

    @rule(seconds=st.sampled_from([0.0, 0.5, 2.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Run timeouts and backoffs end in between."""
        self.do(self.harness.clock.advance(seconds))

    @invariant()
    def slots_are_those_of_open_calls(self) -> None:
        self.do(self.harness.settle())
        service = self.harness.service
        under_way = {name: len(backend.open) for name, backend in self.harness.backends.items()}
        snapshot = service.scheduler.snapshot(self.harness.clock.now())
        busy = {backend.name: backend.busy for region in snapshot.regions for backend in region.backends}
        assert busy == under_way
        assert all(under_way[name] <= slots for name, slots in SLOTS.items())
        (group,) = snapshot.limits
        assert group.used == sum(under_way[name] for name in GROUPED) <= CAP

    def end(self, call: HeldCall, error: BackendError | None = None) -> None:
        async def ended() -> None:
            call.end(error or BackendResult(b'"done"'))

        self.do(ended())


TestDispatching = Dispatching.TestCase
TestDispatching.settings = settings(max_examples=50, stateful_step_count=40)
