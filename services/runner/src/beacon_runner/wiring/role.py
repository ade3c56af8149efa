"""The roles of a runner process."""

from enum import StrEnum


class Role(StrEnum):
    API = "api"
    WORKER = "worker"
    RELAY = "relay"
    ALL = "all"
