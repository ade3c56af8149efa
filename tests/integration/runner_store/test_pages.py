"""Pages of a user's jobs, while these go on."""

from collections.abc import Sequence
from typing import Any

import pytest

from beacon_contracts.jobs import JobState
from tests.integration.runner_store.bed import USER, Bed


async def test_a_job_that_ends_while_a_page_is_read_is_on_it_once(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that live and jobs that ended are read by statements of their own."""
    job = await bed.submit()
    claimed = await bed.claim()
    fetch = bed.database.fetch

    async def fetch_and_end(*call: Any) -> Sequence[Any]:
        monkeypatch.undo()
        rows = await fetch(*call)
        await bed.run(claimed, "a cat")
        return rows

    monkeypatch.setattr(bed.database, "fetch", fetch_and_end)
    states = [JobState.PROCESSING, JobState.COMPLETED]
    page = await bed.reader.page(USER, after=None, states=states, kind=None, limit=10)
    assert [(head.id, head.state) for head in page] == [(job, JobState.COMPLETED)]
