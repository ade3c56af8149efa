"""The receiver of docs/webhooks.md verifies what Beacon sends."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beacon_contracts.ids import DeliveryId, JobId, WebhookId, new_uuid
from beacon_lifecycle import SystemClock
from beacon_runner.domain.webhooks.webhooks import LeasedDelivery, new_secret
from beacon_runner.webhook_client import WebhookClient
from tests.fixtures.waiting import eventually
from tests.fixtures.webhook_receiver import LOOPBACK

EXAMPLE = Path(__file__).parents[4] / "docs/examples/webhook_receiver.py"
SECRET, WRONG = new_secret(b"x" * 32), new_secret(b"y" * 32)


@contextmanager
def receiver(log_file: Path) -> Iterator[str]:
    """The address that the example prints."""
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLE), "0"],
            env={**os.environ, "WEBHOOK_SECRET": SECRET},
            stderr=log,
        )
    try:
        line = eventually(lambda: log_file.read_text().partition("\n")[0], "the receiver has started")
        yield line.removeprefix("receiving at ")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("secret", "status"), [(SECRET, 204), (WRONG, 401)])
async def test_the_example_accepts_only_signed_requests(tmp_path: Path, secret: str, status: int) -> None:
    log = tmp_path / "receiver.log"
    client = WebhookClient(LOOPBACK, SystemClock())
    with receiver(log) as url:
        delivery = LeasedDelivery(
            DeliveryId(new_uuid()),
            WebhookId(new_uuid()),
            JobId(new_uuid()),
            "job.completed",
            url,
            own_url=False,
            data={"status": "completed"},
            created_at=datetime.now(UTC),
            secrets=(secret,),
            attempt=1,
            fence=1,
            late_s=0.0,
        )
        sent = [await client.send(delivery) for _ in range(2)]
        await client.close()
    assert [attempt.status for attempt in sent] == [status] * 2
    events = [line for line in log.read_text().splitlines() if line.startswith("job.completed")]
    assert len(events) == (1 if status == 204 else 0), "repeated attempts are one event"
