"""Group commit: shared when busy, immediate when idle, one result per caller."""

import asyncio
from collections.abc import Sequence

import pytest

from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.postgres.group_commit import GroupCommit


class Writer:
    """Writes when the gate is open; what contains "bad" cannot be written."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.written: list[list[str]] = []
        self.error: type[Exception] = ValueError

    async def write(self, items: Sequence[str]) -> Sequence[str]:
        self.started.set()
        await self.gate.wait()
        if any("bad" in item for item in items):
            raise self.error("bad")
        self.written.append(list(items))
        return [item.upper() for item in items]


@pytest.fixture
def writer() -> Writer:
    return Writer()


async def test_a_single_item_is_written_at_once(writer: Writer) -> None:
    writer.gate.set()
    commits = GroupCommit("test", writer.write)
    assert await commits.submit(["a"]) == ["A"]
    await commits.close()


async def test_items_during_a_write_share_the_next_one(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write)
    first = asyncio.ensure_future(commits.submit(["a"]))
    await writer.started.wait()
    others = [asyncio.ensure_future(commits.submit([name, name])) for name in "bcd"]
    await asyncio.sleep(0)
    assert not first.done()
    writer.gate.set()
    assert await first == ["A"]
    assert [await other for other in others] == [["B", "B"], ["C", "C"], ["D", "D"]]
    assert writer.written == [["a"], ["b", "b", "c", "c", "d", "d"]]
    await commits.close()


async def test_many_pending_items_start_a_second_flush_but_no_third(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write, second_flush_at=3)
    first = asyncio.ensure_future(commits.submit(["a"]))
    await writer.started.wait()
    writer.started.clear()
    few = asyncio.ensure_future(commits.submit(["b", "c"]))
    await asyncio.sleep(0)
    assert not writer.started.is_set()
    more = asyncio.ensure_future(commits.submit(["d"]))
    await writer.started.wait()
    writer.started.clear()
    late = asyncio.ensure_future(commits.submit(["e", "f", "g"]))
    await asyncio.sleep(0)
    assert not writer.started.is_set()
    writer.gate.set()
    await asyncio.gather(first, few, more, late)
    assert sorted(writer.written) == [["a"], ["b", "c", "d"], ["e", "f", "g"]]
    await commits.close()


async def test_a_write_is_bounded_and_a_group_never_split(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write, max_items=3)
    first = asyncio.ensure_future(commits.submit(["a"]))
    await writer.started.wait()
    others = [asyncio.ensure_future(commits.submit(list(names))) for names in ("bc", "de", "fghij")]
    await asyncio.sleep(0)
    writer.gate.set()
    await asyncio.gather(first, *others)
    assert writer.written == [["a"], ["b", "c"], ["d", "e"], ["f", "g", "h", "i", "j"]]
    await commits.close()


async def test_a_bad_item_is_an_error_of_its_caller_only(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write)
    first = asyncio.ensure_future(commits.submit(["a"]))
    await writer.started.wait()
    good = asyncio.ensure_future(commits.submit(["good"]))
    bad = asyncio.ensure_future(commits.submit(["fine", "bad"]))
    await asyncio.sleep(0)
    writer.gate.set()
    assert await first == ["A"]
    assert await good == ["GOOD"]
    with pytest.raises(ValueError, match="bad"):
        await bad
    assert writer.written == [["a"], ["good"]]
    await commits.close()


async def test_an_unavailable_store_is_tried_once_for_all(writer: Writer) -> None:
    writer.error = StoreUnavailableError
    commits = GroupCommit("test", writer.write)
    first = asyncio.ensure_future(commits.submit(["bad"]))
    await writer.started.wait()
    others = [asyncio.ensure_future(commits.submit(["bad"])) for _ in range(3)]
    await asyncio.sleep(0)
    writer.gate.set()
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert all(isinstance(result, StoreUnavailableError) for result in results)
    await commits.close()


async def test_a_cancelled_caller_does_not_cancel_the_write(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write)
    first = asyncio.ensure_future(commits.submit(["a"]))
    await writer.started.wait()
    gone = asyncio.ensure_future(commits.submit(["b"]))
    stays = asyncio.ensure_future(commits.submit(["c"]))
    await asyncio.sleep(0)
    first.cancel()
    gone.cancel()
    writer.gate.set()
    assert await stays == ["C"]
    assert writer.written == [["a"], ["b", "c"]]
    await commits.close()


async def test_closing_writes_accepted_items(writer: Writer) -> None:
    commits = GroupCommit("test", writer.write)
    waiting = [asyncio.ensure_future(commits.submit([name])) for name in "abc"]
    await writer.started.wait()
    closing = asyncio.ensure_future(commits.close())
    writer.gate.set()
    await closing
    assert [await one for one in waiting] == [["A"], ["B"], ["C"]]
