"""The memory of interactive requests."""

from collections import Counter
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from beacon_contracts.ids import UserId, new_uuid
from beacon_runner.application.request_memory import NoRequestMemoryError, RequestMemory, ReservedMemory

USERS = [UserId(new_uuid()) for _ in range(3)]
STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "resize", "release"]), st.integers(0, 9), st.integers(0, 60))
)


@given(STEPS)
def test_the_sum_is_bounded_and_others_always_have_room(steps: list[tuple[str, int, int]]) -> None:
    memory = RequestMemory(100)
    reserved: list[tuple[UserId, ReservedMemory]] = []
    sizes: Counter[int] = Counter()
    for step, which, size in steps:
        with suppress(NoRequestMemoryError):
            if step == "reserve":
                user = USERS[which % 3]
                reserved.append((user, memory.reserve(user, size)))
                sizes[len(reserved) - 1] = size
            elif which < len(reserved):
                if step == "resize":
                    reserved[which][1].resize(size)
                else:
                    reserved[which][1].release()
                sizes[which] = size if step == "resize" else 0
        assert memory.held_bytes == sizes.total() <= 100
    held_by_user: Counter[UserId] = Counter()
    for number, (user, _) in enumerate(reserved):
        held_by_user[user] += sizes[number]
    assert max(held_by_user.values(), default=0) <= 50
    for _, one in reserved:
        one.release()
        one.release()
    assert memory.held_bytes == 0
    memory.reserve(USERS[0], 50)
    assert memory.held_bytes == 50
