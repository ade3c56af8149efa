"""Arrival order with counting: how many of those that still wait came before this one."""

from array import array

_BITS = 6
_FAN = 1 << _BITS
_SPAN = _FAN**3


class Line:
    """A tree of counters with 64 children a node: joining and leaving touch one counter per level,
    and a question adds up at most 64 numbers per level."""

    __slots__ = ("_base", "_levels", "_marks", "_next", "count")

    def __init__(self) -> None:
        self.count = 0
        self._base = 0
        self._next = 0
        self._marks = bytearray()
        self._levels = (array("l"), array("l"), array("l"))

    def join(self) -> int:
        """A place at the end; the number returned is handed back to `leave` and `ahead`."""
        place = self._next
        self._next += 1
        index = place - self._base
        if index == len(self._marks):
            self._grow()
        self._marks[index] = 1
        self._add(index, 1)
        self.count += 1
        return place

    def leave(self, place: int) -> None:
        index = place - self._base
        self._marks[index] = 0
        self._add(index, -1)
        self.count -= 1
        if not self._levels[2][0] and self._next - self._base > _SPAN:
            self._forget_the_oldest()

    def ahead(self, place: int) -> int:
        """How many of those that joined before this place still wait."""
        index = place - self._base
        total = sum(self._marks[index & -_FAN : index])
        for level in self._levels:
            index >>= _BITS
            first = 0 if level is self._levels[2] else index & -_FAN
            total += sum(level[first:index])
        return total

    def _add(self, index: int, change: int) -> None:
        low, middle, high = self._levels
        low[index >> _BITS] += change
        middle[index >> 2 * _BITS] += change
        high[index >> 3 * _BITS] += change

    def _grow(self) -> None:
        self._marks.extend(bytes(_FAN))
        size = len(self._marks)
        for depth, level in enumerate(self._levels, start=1):
            while len(level) << depth * _BITS < size:
                level.append(0)

    def _forget_the_oldest(self) -> None:
        """Drop a whole top node that nobody is left in, so that memory follows who waits."""
        del self._marks[:_SPAN]
        for depth, level in enumerate(self._levels, start=1):
            del level[: _SPAN >> depth * _BITS]
        self._base += _SPAN
