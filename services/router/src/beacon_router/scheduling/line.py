"""Arrival order with counting: how many of those that still wait came before this one."""

_SMALL = 10
_LARGE = 16
"""Bits of a place: so many make a small counter, and a large one."""
_SPAN = 1 << _LARGE


class Line:
    """Marks of who waits, counted by 1,024 and by 65,536: joining and leaving touch one counter of each, and
    a question counts the marks of less than one small counter and adds up the counters before it."""

    __slots__ = ("_base", "_large", "_marks", "_next", "_small")

    def __init__(self) -> None:
        self._base = 0
        self._next = 0
        self._marks = bytearray()
        self._small: list[int] = []
        self._large: list[int] = []

    @property
    def count(self) -> int:
        return sum(self._large)

    def join(self) -> int:
        """A place at the end; the number returned is handed back to `leave` and `ahead`."""
        place = self._next
        self._next += 1
        index = place - self._base
        if index == len(self._marks):
            self._grow()
        self._marks[index] = 1
        self._small[index >> _SMALL] += 1
        self._large[index >> _LARGE] += 1
        return place

    def leave(self, place: int) -> None:
        index = place - self._base
        self._marks[index] = 0
        self._small[index >> _SMALL] -= 1
        self._large[index >> _LARGE] -= 1
        if not self._large[0] and len(self._large) > 1:
            self._forget_the_oldest()

    def ahead(self, place: int) -> int:
        """How many of those that joined before this place still wait."""
        index = place - self._base
        small, large = index >> _SMALL, index >> _LARGE
        marked = self._marks.count(1, small << _SMALL, index)
        return marked + sum(self._small[large << _LARGE - _SMALL : small]) + sum(self._large[:large])

    def _grow(self) -> None:
        """Room for as many as a small counter counts."""
        if len(self._marks) % _SPAN == 0:
            self._large.append(0)
        self._marks.extend(bytes(1 << _SMALL))
        self._small.append(0)

    def _forget_the_oldest(self) -> None:
        """Drop a whole large counter that nobody is left in, so that memory follows who waits."""
        del self._marks[:_SPAN]
        del self._small[: _SPAN >> _SMALL]
        del self._large[0]
        self._base += _SPAN
