from collections.abc import AsyncGenerator

import pytest

from beacon_http.problems import HttpProblemError
from beacon_http.stream_limit import StreamLimit

ANNA, BEN = b"anna", b"ben"


async def numbers() -> AsyncGenerator[int]:
    for number in range(3):
        yield number


async def test_a_key_has_at_most_so_many_streams() -> None:
    limit = StreamLimit(2)
    streams = [limit.counted(ANNA, numbers()) for _ in range(2)]
    for stream in streams:
        limit.check(ANNA)
        assert await anext(stream) == 0
    with pytest.raises(HttpProblemError) as refused:
        limit.check(ANNA)
    assert (refused.value.problem.status, refused.value.problem.code) == (429, "too_many_streams")
    limit.check(BEN)
    await streams[0].aclose()
    limit.check(ANNA)
    await streams[1].aclose()


async def test_a_stream_that_ends_is_not_counted() -> None:
    limit = StreamLimit(1)
    assert [number async for number in limit.counted(ANNA, numbers())] == [0, 1, 2]
    limit.check(ANNA)
