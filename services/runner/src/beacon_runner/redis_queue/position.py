"""The position of a message: exact near the head of a lane, an estimate deep inside."""

from dataclasses import dataclass

from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message
from beacon_runner.ports.queue_admin import QueuePlace


@dataclass(frozen=True, slots=True)
class PositionReply:
    """The return value of position.lua."""

    place: str
    job_class: str
    lane: str
    in_front: int
    ahead_in_lane: int
    length: int
    first: str
    last: str
    lanes: int
    lanes_read: int
    others_before: int


def queue_place(message: Message, reply: PositionReply) -> QueuePlace | None:
    """None when it waits in no list: it is leased, in the retry set, or its list was deleted."""
    if reply.place not in {"w", "f"} or reply.length == 0:
        return None
    front = reply.place == "f"
    in_lane = reply.ahead_in_lane if reply.ahead_in_lane >= 0 else _estimated(message, reply)
    return QueuePlace(
        job_class=JobClass(reply.job_class),
        lane=reply.lane,
        ahead=in_lane if front else reply.in_front + in_lane + _ahead_in_other_lanes(reply),
        ahead_in_lane=in_lane,
        active_lanes=reply.lanes,
        front=front,
    )


def _ahead_in_other_lanes(reply: PositionReply) -> int:
    """Messages of other lanes that are served first, extrapolated from the lanes that were read."""
    if reply.lanes_read == 0:
        return 0
    return round(reply.others_before * reply.lanes / reply.lanes_read)


def _estimated(message: Message, reply: PositionReply) -> int:
    """Ids are ordered by time: the position follows from the share of the lane's time span before it."""
    first, last, own = _time(reply.first), _time(reply.last), message.job.int >> 80
    share = (own - first) / (last - first) if last > first else 0.5
    return round(min(max(share, 0.0), 1.0) * (reply.length - 1))


def _time(message_id: str) -> int:
    return int(message_id[:12], 16)
