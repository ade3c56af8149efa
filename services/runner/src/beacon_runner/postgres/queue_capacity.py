"""How much room the whole queue has: known roughly for nothing, counted exactly when little is left."""

from beacon_lifecycle import Clock, TaskSet
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("limits")

NEAR = 10_000
FRESH_S = 10.0
REST = 50  # a count is followed by a pause of so many times what it took
SHARE = 8  # count again when this process alone has used so much of the room: others may have, too


class QueueCapacity:
    """Counting a million live jobs takes long, so it is done aside while there is plenty of room.

    What this process has added since the last count is known; what others may have is covered by counting
    again each time an eighth of the room is used. Within `NEAR` of the bound every submission counts.
    """

    def __init__(self, database: Database, clock: Clock, size: int) -> None:
        self.size = size
        self._database = database
        self._clock = clock
        self._near = min(size, NEAR)
        self._free: int | None = None
        self._added = 0
        self._count_again_at = 0.0
        self._tasks = TaskSet("queue-room")
        self._counting = False

    def is_plenty(self, count: int) -> bool:
        """Whether so many may be added without counting first."""
        if self._free is None or self._free - self._added - count < self._near:
            return False
        self._added += count
        if not self._counting and self._is_old(self._free):
            self._counting = True
            self._tasks.spawn("count", self._count())
        return True

    def counted(self, live: int, added: int) -> None:
        """An exact count, and what was added right after it."""
        self._free, self._added = self.size - live, added

    async def close(self) -> None:
        await self._tasks.close()

    def _is_old(self, free: int) -> bool:
        return self._clock.now() >= self._count_again_at or self._added * SHARE > free

    async def _count(self) -> None:
        before, began = self._added, self._clock.now()
        try:
            live = int(await self._database.fetchval(_SQL["live_jobs"], self.size))
            self.counted(live, self._added - before)
        except StoreUnavailableError:
            pass  # submissions meet the same trouble and say so
        finally:
            took_s = self._clock.now() - began
            self._count_again_at = self._clock.now() + max(FRESH_S, REST * took_s)
            self._counting = False
