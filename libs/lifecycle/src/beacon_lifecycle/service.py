"""The contract of everything that runs inside a process."""

from typing import Protocol


class Service(Protocol):
    """Something that starts, runs until stopped, and stops within a bound.

    `start` returns when the service is ready. `stop` is idempotent, may be called at any time, and returns
    when no part of the service runs any more. `wait` returns after `stop`, and raises the error if the
    service ended for another reason.
    """

    @property
    def name(self) -> str: ...

    async def start(self) -> None: ...

    async def wait(self) -> None: ...

    async def stop(self) -> None: ...
