"""What a chat request may need of a backend."""

from enum import StrEnum


class Capability(StrEnum):
    """What a request may need of a backend."""

    TOOLS = "tools"
    JSON_SCHEMA = "json_schema"
    LOGPROBS = "logprobs"
    N = "n"
    IMAGES = "images"
    AUDIO = "audio"
