"""The capabilities of backends for chat requests."""

from enum import StrEnum


class Capability(StrEnum):
    """A parameter or content of chat requests that not every backend supports."""

    TOOLS = "tools"
    JSON_SCHEMA = "json_schema"
    LOGPROBS = "logprobs"
    N = "n"
    IMAGES = "images"
    AUDIO = "audio"
