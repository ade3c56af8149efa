"""Generated keys have the required format; short, repetitive and foreign ones do not."""

import pytest

from beacon_contracts.api_keys import is_api_key, new_api_key

KEY = "bk_9eka8Gxmm4GDskffVyhvxHwt7BLETEiaLSMKSBR7Y-_"


def test_generated_keys_have_the_format() -> None:
    assert all(is_api_key(new_api_key()) for _ in range(1_000))
    assert is_api_key(KEY)


@pytest.mark.parametrize(
    "text", ["", "a", "bk_", "bk_" + "ab" * 21 + "a", KEY + "\n", KEY[:-1], KEY[1:], "x" * 46]
)
def test_other_texts_do_not(text: str) -> None:
    assert not is_api_key(text)
