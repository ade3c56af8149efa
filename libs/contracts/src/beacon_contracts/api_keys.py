"""The format of API keys: `bk_` and 32 random bytes in URL-safe base64."""

import re
from secrets import token_urlsafe

_FORMAT = re.compile(r"bk_[A-Za-z0-9_-]{43}")
_MIN_DISTINCT = 16  # 43 random characters have fewer than 16 different ones less than once in 10^13 keys


def new_api_key() -> str:
    return "bk_" + token_urlsafe(32)


def is_api_key(text: str) -> bool:
    """Whether a text has the format of a generated key, and is no repetition of a few characters."""
    return _FORMAT.fullmatch(text) is not None and len(set(text.removeprefix("bk_"))) >= _MIN_DISTINCT
