"""Whatever comes in whatever order: slots in use are calls under way, and never more than there may be."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beacon_router.backends import Answer, BackendError
from beacon_router.scheduling import BackendSpec, GroupSpec, RequestId
from beacon_router.service.errors import DispatchError
from tests.unit.router.shell_bed import HeldCall, failure, shell_bed, topology

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
    """Few names, so that one is often asked for again while its earlier run is still remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.opened = shell_bed(PLACE, breaker_failures=1_000)
        self.bed = self.do(self.opened.__aenter__())

    def teardown(self) -> None:
        """What still runs is cancelled, and every slot is free."""
        try:
            for number in range(8):
                self.cancel(f"r{number}")
            assert self.open == []
            self.slots_are_those_of_open_calls()
        finally:
            self.do(self.opened.__aexit__(None, None, None))
            self.runner.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @property
    def calls(self) -> list[HeldCall]:
        """All there ever were, those that are over too."""
        return [call for backend in self.bed.backends.values() for call in backend.calls]

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
                self.bed.submit(name, region=region, fence=fence, pinned=pinned, timeout_s=timeout_s)
            except DispatchError:
                return

        self.do(asked())

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        async def cancelled() -> None:
            try:
                self.bed.shell.dispatcher.cancel(RequestId(name))
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

    @precondition(lambda self: len(self.calls) > len(self.open))
    @rule(data=st.data(), failed=st.booleans())
    def answer_what_is_over(self, data: st.DataObject, failed: bool) -> None:
        """After its cancel, its time limit or its first answer: maybe while the same name runs again."""
        over = [call for call in self.calls if not call.open]
        self.end(data.draw(st.sampled_from(over)), failure() if failed else None)

    @rule(seconds=st.sampled_from([0.0, 0.5, 2.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Time limits of runs, and the ends of backoffs, come in between."""
        self.do(self.bed.clock.advance(seconds))

    @invariant()
    def slots_are_those_of_open_calls(self) -> None:
        shell = self.bed.shell
        under_way = {name: len(backend.open) for name, backend in self.bed.backends.items()}
        snapshot = shell.scheduler.snapshot(self.bed.clock.now())
        busy = {backend.name: backend.busy for region in snapshot.regions for backend in region.backends}
        assert busy == under_way
        assert all(under_way[name] <= slots for name, slots in SLOTS.items())
        (group,) = snapshot.limits
        assert group.used == sum(under_way[name] for name in GROUPED) <= CAP

    def end(self, call: HeldCall, error: BackendError | None = None) -> None:
        async def ended() -> None:
            call.end(error or Answer(b'"done"'))

        self.do(ended())


TestDispatching = Dispatching.TestCase
TestDispatching.settings = settings(max_examples=100, stateful_step_count=40)
