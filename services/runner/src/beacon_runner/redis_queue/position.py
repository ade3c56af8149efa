"""How many messages are served before a given one: exact near the head of a lane, an estimate deep inside."""

from dataclasses import dataclass

from beacon_contracts.tiers import JobClass
from beacon_runner.domain.messages import Message
from beacon_runner.ports.queue_admin import QueuePlace


@dataclass(frozen=True, slots=True)
class Standing:
    """The answer of position.lua."""

    place: str
    job_class: str
    lane: str
    in_front: int
    ahead_in_lane: int
    length: int
    first: str
    last: str
    lanes: int
    lanes_looked_at: int
    others_before: int


def place_of(message: Message, standing: Standing) -> QueuePlace | None:
    """None when it waits in no lane."""
    if standing.place not in {"w", "f"}:
        return None
    front = standing.place == "f"
    in_lane = standing.ahead_in_lane if standing.ahead_in_lane >= 0 else _deep(message, standing)
    return QueuePlace(
        job_class=JobClass(standing.job_class),
        lane=standing.lane,
        ahead=in_lane if front else standing.in_front + in_lane + _other_lanes(standing),
        ahead_in_lane=in_lane,
        active_lanes=standing.lanes,
        front=front,
    )


def _other_lanes(standing: Standing) -> int:
    """What other lanes serve first, taking those that were not looked at to be like those that were."""
    if standing.lanes_looked_at == 0:
        return 0
    return round(standing.others_before * standing.lanes / standing.lanes_looked_at)


def _deep(message: Message, standing: Standing) -> int:
    """Ids are ordered by time: a place by the share of the lane's time span that lies before it."""
    first, last, own = _time(standing.first), _time(standing.last), message.job.int >> 80
    share = (own - first) / (last - first) if last > first else 0.5
    return round(min(max(share, 0.0), 1.0) * (standing.length - 1))


def _time(message_id: str) -> int:
    return int(message_id[:12], 16)
