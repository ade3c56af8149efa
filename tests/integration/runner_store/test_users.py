"""Users and their keys."""

import pytest

from beacon_contracts.api_keys import new_api_key
from beacon_runner.domain.errors import ApiKeyTakenError
from beacon_runner.postgres.accounts.users import PostgresUsers
from tests.integration.runner_store.harness import StoreHarness


async def test_a_user_whose_first_key_is_refused_is_not_added(harness: StoreHarness) -> None:
    users, key = PostgresUsers(harness.database), new_api_key()
    await users.add("anna", "free", key)
    with pytest.raises(ApiKeyTakenError):
        await users.add("bert", "free", key)
    assert "bert" not in {user.name for user in await users.page(None, 100)}
