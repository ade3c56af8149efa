"""Which lane a job waits in, as far as that follows from the job alone."""

from zlib import crc32

from beacon_config.tenancy import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId

SINGLE_LANE = "all"
UNCHOSEN = ""


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


def numbered_lane(number: int) -> str:
    return f"queue_{number}"
