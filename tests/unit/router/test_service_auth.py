"""The service token is accepted, whatever characters it has."""

import pytest

from beacon_router.http.auth import ServiceAuth, presented_key


@pytest.mark.parametrize("token", ["a-plain-token", "geheim-schlüssel", "et-voilà", "秘密のトークン"])
def test_the_token_is_compared_as_it_is_sent(token: str) -> None:
    auth = ServiceAuth(token)
    sent = presented_key({"headers": [(b"authorization", f"Bearer {token}".encode())]})

    assert sent is not None
    assert auth.is_service(sent)
    assert not auth.is_service(sent[:-1])
