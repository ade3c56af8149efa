"""The configuration of a running process, which changes while it runs."""

from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

from beacon_config.root import BeaconConfig

T = TypeVar("T")


class LiveConfig:
    """Holds the configuration that applies now. Keep a reference to this object, not to `current`."""

    def __init__(
        self, config: BeaconConfig, revision: int | None = None, created_at: datetime | None = None
    ) -> None:
        self.current = config
        self.revision = revision
        """The number of the revision; None if the configuration was read from a file."""
        self.created_at = created_at
        self.on_change: list[Callable[[], None]] = []
        """Called after each change."""

    def replace(
        self, config: BeaconConfig, revision: int | None = None, created_at: datetime | None = None
    ) -> None:
        self.current, self.revision, self.created_at = config, revision, created_at
        for changed in self.on_change:
            changed()


class Derived(Generic[T]):
    """A value computed from the configuration, and computed again after a change."""

    def __init__(self, live: LiveConfig, compute: Callable[[BeaconConfig], T]) -> None:
        self._live = live
        self._compute = compute
        self._config = live.current
        self._value = compute(self._config)

    def __call__(self) -> T:
        config = self._live.current
        if config is not self._config:
            self._value, self._config = self._compute(config), config
        return self._value
