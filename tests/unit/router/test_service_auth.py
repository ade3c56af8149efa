"""The service token is accepted, whatever characters it has."""

import pytest

from beacon_http.problems import HttpProblemError
from beacon_router.http.auth import ServiceAuth


@pytest.mark.parametrize("token", ["a-plain-token", "geheim-schlüssel", "et-voilà", "秘密のトークン"])
def test_the_token_is_compared_as_it_is_sent(token: str) -> None:
    auth = ServiceAuth(token)

    auth.check(_request_with(token))
    with pytest.raises(HttpProblemError, match="not the service token"):
        auth.check(_request_with(token[:-1]))


def _request_with(token: str) -> dict[str, list[tuple[bytes, bytes]]]:
    return {"headers": [(b"authorization", f"Bearer {token}".encode())]}
