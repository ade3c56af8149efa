"""The user of an inference reaches the scheduler."""

from beacon_router.scheduling import BackendSpec
from tests.unit.router.dispatch_harness import dispatch_harness, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m"}), slots=1)])


async def test_a_second_user_does_not_wait_for_all_of_the_first() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        for number in range(8):
            harness.submit(f"a{number}", user="a")
        harness.submit("b0", user="b")
        await harness.settle()
        assert harness.running("us") == ["a0"]
        await harness.clock.advance(1.0)
        await harness.answer("us")
        assert harness.running("us") == ["b0"]


async def test_a_user_with_twice_the_weight_runs_twice_as_often() -> None:
    async with dispatch_harness(ONE_SLOT) as harness:
        for number in range(12):
            harness.submit(f"a{number}", user="a", weight=2.0)
            harness.submit(f"b{number}", user="b")
        started = []
        for _ in range(9):
            await harness.settle()
            started += harness.running("us")
            await harness.clock.advance(1.0)
            await harness.answer("us")
        assert sum(name.startswith("a") for name in started) == 6
