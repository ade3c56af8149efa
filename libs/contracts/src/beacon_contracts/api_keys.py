"""The format of API keys: `bk_`, a public prefix, `_`, and 32 secret random bytes in URL-safe base64."""

import re
from secrets import token_hex, token_urlsafe

_FORMAT = re.compile(r"bk_[a-z0-9]{8}_([A-Za-z0-9_-]{43})")
_PREFIX_LENGTH = len("bk_12345678")
_MIN_DISTINCT = 16  # 43 random characters have fewer than 16 different ones less than once in 10^13 keys


def new_api_key() -> str:
    """A random key with a public prefix."""
    return f"bk_{token_hex(4)}_{token_urlsafe(32)}"


def is_api_key(text: str) -> bool:
    """Whether it has the format of a generated key, and its secret no repetition of a few characters."""
    match = _FORMAT.fullmatch(text)
    return match is not None and len(set(match[1])) >= _MIN_DISTINCT


def public_prefix(key: str) -> str:
    """What may be shown of a key; no part of the secret."""
    return key[:_PREFIX_LENGTH]
