"""Names of keys and channels. Keys of lanes are derived in Lua, from the messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from beacon_config import BeaconConfig
from beacon_config.queues import LaneStrategy
from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.lanes import SINGLE_LANE

HASH_TAG = "{beacon}"
WAKE_CHANNEL = "beacon:jobs"
OUTBOX_CHANNEL = "beacon:outbox"


def watch_channel(job: JobId) -> str:
    """Notified when a job has changed; see notify.lua."""
    return f"ws:{job.hex}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The classes and lanes of the queues, and the prefix of every key.

    In a cluster all keys have one hash tag, because scripts use keys of several lanes and classes atomically.
    """

    classes: tuple[JobClass, ...] = tuple(JobClass)
    chosen_lanes: int = 20
    plain: bool = False
    prefix: str = ""

    @classmethod
    def of(cls, config: BeaconConfig, *, cluster: bool) -> Self:
        used = {tier.job_class for tier in config.tiers.values()}
        classes = tuple(job_class for job_class in JobClass if job_class in used)
        single = config.lanes.strategy is LaneStrategy.SINGLE
        return cls(
            classes=classes,
            chosen_lanes=config.lanes.count,
            plain=single and len(classes) == 1,
            prefix=HASH_TAG if cluster else "",
        )

    def name(self, key: str) -> str:
        return self.prefix + key

    @property
    def shared(self) -> tuple[str, ...]:
        """KEYS 1-5 of every operation; see layout.inc.lua."""
        return self.live, *self.names(("jobs:leases", "jobs:retry", "jobs:waiting")), self.paused

    def list_of(self, place: str, job_class: str, lane: str) -> str:
        """The list of a waiting message; as `front_of` and `list_of` in layout.inc.lua."""
        if place == "f":
            return self.name(f"jobs:{job_class}:front")
        if self.plain and lane == SINGLE_LANE:
            return self.name("jobs")
        return self.name(f"jobs:{job_class}:{lane}")

    def ring(self, job_class: str) -> str:
        return self.name(f"jobs:{job_class}:ring")

    @property
    def dead(self) -> tuple[str, ...]:
        return self.names(("jobs:dead", "jobs:dead:ids"))

    @property
    def live(self) -> str:
        return self.name("jobs:live")

    @property
    def paused(self) -> str:
        return self.name("jobs:paused")

    @property
    def epoch(self) -> str:
        return self.name("jobs:epoch")

    @property
    def open(self) -> str:
        """Set when the paused classes are restored; see claim.lua."""
        return self.name("jobs:open")

    @property
    def arguments(self) -> tuple[str, str, str]:
        """ARGV 1-3 of every operation; see layout.inc.lua."""
        return self.prefix, "1" if self.plain else "", WAKE_CHANNEL

    def names(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.name(key) for key in keys)
