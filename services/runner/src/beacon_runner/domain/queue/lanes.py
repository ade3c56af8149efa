"""The lane of a job, where it follows from the job alone."""

from zlib import crc32

from beacon_config.queues import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId

SINGLE_LANE = "all"
UNCHOSEN = ""
_NUMBERED = "queue_"


def lane_at_submission(lanes: LanesConfig, user: UserId) -> str:
    """The lane of a new job; `UNCHOSEN` when the queue chooses it (least loaded)."""
    match lanes.strategy:
        case LaneStrategy.PER_USER:
            return user.hex
        case LaneStrategy.HASH:
            return numbered_lane(crc32(user.bytes) % lanes.count)
        case LaneStrategy.SINGLE:
            return SINGLE_LANE
        case LaneStrategy.LEAST_LOADED:
            return UNCHOSEN


def kept_lane(lane: str, user: UserId) -> str | None:
    """The stored form: null for the user's own lane, which follows from the row's user."""
    return None if lane == user.hex else lane


def lane_of(kept: str | None, user: UserId) -> str:
    """The inverse of `kept_lane`."""
    return user.hex if kept is None else kept


def numbered_lane(number: int) -> str:
    return f"{_NUMBERED}{number}"


def is_numbered(lane: str) -> bool:
    """Whether the queue has chosen the lane; the job's row may not have it yet."""
    return lane.startswith(_NUMBERED)
