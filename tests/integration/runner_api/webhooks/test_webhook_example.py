"""The receiver of docs/webhooks.md verifies what Beacon sends."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

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


def delivery(url: str, secret: str, name: str = "job") -> LeasedDelivery:
    return LeasedDelivery(
        DeliveryId(new_uuid()),
        WebhookId(new_uuid()),
        JobId(new_uuid()),
        "job.completed",
        url,
        own_url=False,
        data={"name": name},
        created_at=datetime.now(UTC),
        secrets=(secret,),
        attempt=1,
        fence=1,
        late_s=0.0,
    )


async def test_the_example_processes_each_event_once(tmp_path: Path) -> None:
    log = tmp_path / "receiver.log"

    def processed(name: str) -> int:
        return sum(name in line for line in log.read_text().splitlines())

    client = WebhookClient(LOOPBACK, SystemClock())
    with receiver(log) as url:
        repeated, other = delivery(url, SECRET, "repeated"), delivery(url, SECRET, "other")
        assert (await client.send(repeated)).status == 204
        eventually(lambda: processed("repeated"), "the event is processed, which follows its response")
        assert [(await client.send(each)).status for each in (repeated, other)] == [204, 204]
        eventually(lambda: processed("other"), "the other event is processed")
        await client.close()
    assert processed("repeated") == 1, "repeated attempts are one event"


async def test_the_example_refuses_requests_with_a_wrong_signature(tmp_path: Path) -> None:
    client = WebhookClient(LOOPBACK, SystemClock())
    with receiver(tmp_path / "receiver.log") as url:
        attempt = await client.send(delivery(url, WRONG))
        await client.close()
    assert attempt.status == 401
