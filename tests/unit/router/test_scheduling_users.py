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
