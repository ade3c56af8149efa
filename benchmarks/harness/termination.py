"""On SIGTERM and SIGINT a measurement stops its servers and systems before it exits."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_terminated(measuring: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`; SIGTERM cancels the main task as Ctrl-C does."""

    async def main() -> None:
        task = asyncio.ensure_future(measuring)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await task

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        raise SystemExit("terminated: nothing of this section is kept") from None
