"""The user of an inference reaches the scheduler."""

from beacon_router.scheduling import BackendSpec
from tests.unit.router.shell_bed import shell_bed, topology

ONE_SLOT = topology([BackendSpec("us", "US", frozenset({"m"}), slots=1)])


async def test_a_second_user_does_not_wait_for_all_of_the_first() -> None:
    async with shell_bed(ONE_SLOT) as bed:
        for number in range(8):
            bed.submit(f"a{number}", user="a")
        bed.submit("b0", user="b")
        await bed.settle()
        assert bed.running("us") == ["a0"]
        await bed.clock.advance(1.0)
        await bed.answer("us")
        assert bed.running("us") == ["b0"]
