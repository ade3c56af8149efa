"""How many more jobs the queue accepts: estimated while there is much room, counted when little is left."""

from typing import TYPE_CHECKING

from beacon_lifecycle import Clock, TaskSet
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("queue_capacity")

EXACT_BELOW = 10_000  # with less room every submission counts
RECOUNT_S = 10.0
RECOUNT_PAUSE = 50  # a count is followed by a pause of so many times its duration
RECOUNT_SHARE = 8  # count again when this process has used this part of the room: others may have, too


class QueueCapacity:
    """Counting a million live jobs takes long, so it is done in the background while there is much room.

    What this process has added since the last count is known. What other processes may have added is covered
    by counting again each time an eighth of the room is used.
    """

    def __init__(self, database: Database, clock: Clock, size: int) -> None:
        self.size = size
        self._database = database
        self._clock = clock
        self._exact_below = min(size, EXACT_BELOW)
        self._free: int | None = None
        self._added = 0
        self._recount_at = 0.0
        self._tasks = TaskSet("queue-capacity")
        self._counting = False

    def resize(self, size: int) -> None:
        """The next submission counts the live jobs."""
        if size != self.size:
            self.size = size
            self._exact_below = min(size, EXACT_BELOW)
            self._free = None

    def reserve(self, count: int) -> bool:
        """Reserve room for so many jobs; false when the live jobs must be counted first."""
        if self._free is None or self._free - self._added - count < self._exact_below:
            return False
        self._added += count
        outdated = self._clock.now() >= self._recount_at or self._added * RECOUNT_SHARE > self._free
        if outdated and not self._counting:
            self._counting = True
            self._tasks.spawn("count", self._count())
        return True

    async def room(self, connection: "Connection", count: int) -> int | None:
        """How many of so many new jobs fit; None while there is much room: then submissions need no lock."""
        if self.reserve(count):
            return None
        await connection.execute(_SQL["lock_queue"])
        live = int(await connection.fetchval(_SQL["live_jobs"], self.size))
        self._free, self._added = self.size - live, count
        return self._free

    async def close(self) -> None:
        await self._tasks.close()

    async def _count(self) -> None:
        before, began = self._added, self._clock.now()
        try:
            size = self.size
            live = int(await self._database.fetchval(_SQL["live_jobs"], size))
            if size == self.size:
                self._free, self._added = size - live, self._added - before
        except StoreUnavailableError:
            pass  # submissions fail with the same error and report it
        finally:
            took_s = self._clock.now() - began
            self._recount_at = self._clock.now() + max(RECOUNT_S, RECOUNT_PAUSE * took_s)
            self._counting = False
