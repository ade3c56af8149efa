"""A connection that listens: what is published is told as it is read, without a task in between."""

import asyncio
from collections.abc import Callable, Mapping

from beacon_redis.line import Line


class Ear(Line):
    """Subscribes to channels; each has somebody who hears what is published in it."""

    def __init__(self, timeout_s: float, channels: Mapping[str, Callable[[str], None]]) -> None:
        super().__init__(timeout_s)
        self._channels = channels
        self._broken = asyncio.Event()

    async def listen(self) -> None:
        for channel in self._channels:
            await self.call("SUBSCRIBE", channel)

    async def stop_listening(self) -> None:
        """What was published before has been heard when this returns."""
        for channel in self._channels:
            await self.call("UNSUBSCRIBE", channel)

    async def broken(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._broken.wait()
        except TimeoutError:
            return False
        return True

    def _read(self) -> None:
        while (answer := self._reader.gets()) is not False:
            if isinstance(answer, list) and answer[0] == "message":
                self._channels[answer[1]](answer[2])
            elif self._waiting:
                self._tell(self._waiting.popleft(), answer)

    def _break(self, error: Exception) -> None:
        super()._break(error)
        self._broken.set()
