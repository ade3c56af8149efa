"""Which lane a job waits in, as far as that follows from the job alone."""

from zlib import crc32

from beacon_config.tiers import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId

SINGLE_LANE = "all"
UNCHOSEN = ""
_NUMBERED = "queue_"


def lane_at_submission(lanes: LanesConfig, user: UserId) -> str:
    """The lane of a new job; `UNCHOSEN` when only the queue can tell (least loaded)."""
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
    """As rows keep it: nothing for the user's own, which follows from whose the row is."""
    return None if lane == user.hex else lane


def lane_of(kept: str | None, user: UserId) -> str:
    """The inverse."""
    return user.hex if kept is None else kept


def numbered_lane(number: int) -> str:
    return f"{_NUMBERED}{number}"


def is_numbered(lane: str) -> bool:
    """One of those that the queue chooses among: the job's row may not name it yet."""
    return lane.startswith(_NUMBERED)
