"""What a process of the runner is there for."""

from enum import StrEnum


class Role(StrEnum):
    API = "api"
    WORKER = "worker"
    RELAY = "relay"
    ALL = "all"
