"""Generated keys have the required format; short, repetitive and foreign ones do not."""

import pytest

from beacon_contracts.api_keys import is_api_key, new_api_key, public_prefix

KEY = "bk_1a2b3c4d_9eka8Gxmm4GDskffVyhvxHwt7BLETEiaLSMKSBR7Y-_"


def test_generated_keys_have_the_format() -> None:
    assert all(is_api_key(new_api_key()) for _ in range(1_000))
    assert is_api_key(KEY)


@pytest.mark.parametrize(
    "text", ["", "a", "bk_", "bk_1a2b3c4d_" + "ab" * 21 + "a", KEY + "\n", KEY[:-1], KEY[1:], "x" * 46]
)
def test_other_texts_are_refused(text: str) -> None:
    assert not is_api_key(text)


def test_the_public_prefix_is_no_part_of_the_secret() -> None:
    key = new_api_key()
    _, prefix, secret = key.split("_", 2)
    assert public_prefix(key) == f"bk_{prefix}"
    assert len(secret) == 43
