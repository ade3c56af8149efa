"""A model of the queue: lists and dictionaries, no Redis."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message

RANK = {JobClass.HIGH: 3, JobClass.MEDIUM: 2, JobClass.LOW: 1}


@dataclass
class Known:
    message: Message
    place: str  # lane, front, retry or leased
    holder: str = ""
    paid: bool = False  # leased or waiting for a retry: it belongs to the front


@dataclass
class QueueModel:
    known: dict[str, Known] = field(default_factory=dict)
    lanes: dict[tuple[JobClass, str], deque[str]] = field(default_factory=dict)
    rings: dict[JobClass, deque[str]] = field(default_factory=lambda: {c: deque() for c in JobClass})
    fronts: dict[JobClass, deque[str]] = field(default_factory=lambda: {c: deque() for c in JobClass})
    paused: set[JobClass] = field(default_factory=set)

    def push(self, message: Message, *, front: bool) -> None:
        if message.id not in self.known:
            self._wait(message, front=front)
        else:
            self.raise_to(message.id, message.job_class, front=front)

    def push_retry(self, message: Message, *, front: bool) -> None:
        self.known.setdefault(message.id, Known(message, "retry", paid=front))

    def raise_to(self, message_id: str, job_class: JobClass | None, *, front: bool) -> bool:
        known = self.known.get(message_id)
        if known is None:
            return False
        higher = job_class is not None and RANK[job_class] > RANK[known.message.job_class]
        target = known.message._replace(job_class=job_class) if higher and job_class else known.message
        was_front = known.place == "front" or known.paid
        if not higher and (was_front or not front):
            return False
        if known.place not in ("lane", "front"):
            known.message, known.paid = target, front or was_front
            return True
        self._leave(message_id)
        self._wait(target, front=front or was_front)
        return True

    def claim(
        self, classes: Sequence[JobClass], limit: int, worker: str, skipped: AbstractSet[str] = frozenset()
    ) -> list[Message]:
        taken: list[str] = []
        serving = [job_class for job_class in classes if job_class not in self.paused]
        for job_class in serving:
            taken += self._take_front(job_class, limit - len(taken))
        for job_class in serving:
            taken += self._take_in_turn(job_class, limit - len(taken), skipped)
        for message_id in taken:
            known = self.known[message_id]
            known.paid = known.place == "front"
            known.place, known.holder = "leased", worker
        return [self.known[message_id].message for message_id in taken]

    def forget(self, ids: Iterable[str]) -> int:
        gone = [one for one in ids if one in self.known]
        for message_id in gone:
            self._leave(message_id)
            del self.known[message_id]
        return len(gone)

    def remove(self, ids: Iterable[str]) -> int:
        return self.forget([one for one in ids if one in self.known and self.known[one].place != "leased"])

    def nack(self, ids: Sequence[str], holder: str | None) -> int:
        """The last one first, each at the head, so that the first one is in front."""
        back = [one for one in ids if one in self.known and self.known[one].place == "leased"]
        back = [one for one in back if holder in (None, self.known[one].holder)]
        for message_id in reversed(back):
            known = self.known[message_id]
            self._wait(known.message, front=known.paid, first=True)
        return len(back)

    def extend(self, messages: Iterable[Message], holder: str) -> list[str]:
        lost = []
        for message in messages:
            known = self.known.get(message.id)
            if known is None:
                self.known[message.id] = Known(message, "leased", holder)
            elif known.place != "leased":
                paid = known.place == "front" or known.paid
                self._leave(message.id)
                self.known[message.id] = Known(known.message, "leased", holder, paid)
            elif known.holder != holder:
                lost.append(message.id)
        return lost

    def promote_due_retries(self, ids: Sequence[str]) -> None:
        for message_id in ids:
            known = self.known[message_id]
            self._wait(known.message, front=known.paid)

    def misplaces(self, message: Message) -> bool:
        known = self.known.get(message.id)
        return known is None or RANK[known.message.job_class] < RANK[message.job_class]

    def leased_ids(self) -> list[str]:
        return [one for one, known in self.known.items() if known.place == "leased"]

    def waiting(self) -> dict[JobClass, int]:
        places = ("lane", "front")
        counts = Counter(k.message.job_class for k in self.known.values() if k.place in places)
        return {job_class: counts[job_class] for job_class in JobClass}

    def loads(self, lane: str) -> tuple[int, int]:
        mine = [known for known in self.known.values() if known.message.lane == lane]
        pending = sum(known.place in ("lane", "front") for known in mine)
        return pending, sum(known.place == "leased" for known in mine)

    def _take_front(self, job_class: JobClass, limit: int) -> list[str]:
        front = self.fronts[job_class]
        return [front.popleft() for _ in range(min(limit, len(front)))]

    def _take_in_turn(self, job_class: JobClass, limit: int, skipped: AbstractSet[str]) -> list[str]:
        taken: list[str] = []
        passed: list[str] = []
        ring = self.rings[job_class]
        while len(taken) < limit and ring:
            lane = ring.popleft()
            if lane in skipped:
                passed.append(lane)
                continue
            waiting = self.lanes[job_class, lane]
            taken.append(waiting.popleft())
            if waiting:
                ring.append(lane)
        ring.extend(passed)
        return taken

    def _wait(self, message: Message, *, front: bool, first: bool = False) -> None:
        self.known[message.id] = Known(message, "front" if front else "lane")
        if front:
            line = self.fronts[message.job_class]
        else:
            line = self.lanes.setdefault((message.job_class, message.lane), deque())
            if not line:
                self.rings[message.job_class].append(message.lane)
        if first:
            line.appendleft(message.id)
        else:
            line.append(message.id)

    def _leave(self, message_id: str) -> None:
        known = self.known[message_id]
        message = known.message
        if known.place == "front":
            self.fronts[message.job_class].remove(message_id)
        elif known.place == "lane":
            line = self.lanes[message.job_class, message.lane]
            line.remove(message_id)
            if not line:
                self.rings[message.job_class].remove(message.lane)
