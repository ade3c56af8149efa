import pytest

from beacon_http.problems import HttpProblemError
from beacon_http.stream_limit import StreamLimit

ANNA, BEN = b"anna", b"ben"


def test_a_key_has_at_most_so_many_streams() -> None:
    limit = StreamLimit(2)
    with limit.stream(ANNA):
        with limit.stream(ANNA):
            with pytest.raises(HttpProblemError) as refused, limit.stream(ANNA):
                pass
            with limit.stream(BEN):
                pass
        with limit.stream(ANNA):
            pass
    assert (refused.value.problem.status, refused.value.problem.code) == (429, "too_many_streams")


def test_a_stream_that_fails_is_not_counted() -> None:
    limit = StreamLimit(1)
    for _ in range(2):
        with pytest.raises(ConnectionError), limit.stream(ANNA):
            raise ConnectionError
