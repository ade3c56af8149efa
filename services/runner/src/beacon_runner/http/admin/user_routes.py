"""Users, tiers, keys and credit, for operators."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from beacon_config import BeaconConfig, LiveConfig
from beacon_contracts.accounts import (
    CreditChange,
    DisabledJobs,
    KeyCreated,
    KeyList,
    KeyView,
    NewKey,
    NewUser,
    Scope,
    UserChange,
    UserCreated,
    UserPage,
    UserView,
)
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.ids import KEY, USER, KeyId, UserId, decode_id, encode_id
from beacon_http.replies import view_response
from beacon_runner.domain.accounts.users import ApiKey, User
from beacon_runner.domain.errors import CreditOutOfRangeError, InvalidFieldsError
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import PageSize
from beacon_runner.http.openapi import problems
from beacon_runner.ports.users import CreditStore, UserStore

UserPath = Annotated[str, Path(examples=["user_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
KeyPath = Annotated[str, Path(examples=["key_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
NameCursor = Annotated[str | None, Query(max_length=100, pattern=r"^[^\x00]*$")]


def user_view(user: User) -> UserView:
    return UserView(
        id=encode_id(USER, user.id),
        name=user.name,
        tier=user.tier,
        weight=user.weight,
        credit=user.credit,
        created_at=user.created_at,
        disabled_at=user.disabled_at,
    )


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        id=encode_id(KEY, key.id),
        user_id=encode_id(USER, key.user),
        name=key.name,
        hint=key.hint,
        scopes=sorted(key.scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
    )


def user_routes(
    live: LiveConfig,
    users: UserStore,
    credit: CreditStore,
    keys: ApiKeyCache,
    notify_outbox: Callable[[], None],
) -> APIRouter:
    routes = APIRouter(prefix="/admin/users", tags=["users"], route_class=require_scope(keys, Scope.ADMIN))

    @routes.get("", responses={200: {"model": UserPage}, **problems(401, 403, 422, 503)})
    async def list_users(limit: PageSize = 100, cursor: NameCursor = None) -> Response:
        """Users by name."""
        found = await users.page(cursor, limit + 1)
        next_cursor = found[limit - 1].name if len(found) > limit else None
        return view_response(
            UserPage(users=[user_view(one) for one in found[:limit]], next_cursor=next_cursor)
        )

    @routes.post(
        "", status_code=201, responses={201: {"model": UserCreated}, **problems(400, 401, 403, 409, 422, 503)}
    )
    async def add_user(request: Request, new: NewUser) -> Response:
        """A new user with a first key, which is shown only now."""
        key = new_api_key()
        user = await users.add(
            new.name,
            _tier(live.current, new.tier or live.current.lowest_tier),
            key,
            weight=new.weight,
            by=principal_of(request).actor,
        )
        return view_response(UserCreated(**user_view(user).model_dump(), key=key), 201)

    @routes.get("/{user_id}", responses={200: {"model": UserView}, **problems(401, 403, 404, 422, 503)})
    async def get_user(user_id: UserPath) -> Response:
        return view_response(user_view(await users.get(_user(user_id))))

    @routes.post("/{user_id}", responses={200: {"model": UserView}, **problems(400, 401, 403, 404, 422, 503)})
    async def change_user(request: Request, user_id: UserPath, change: UserChange) -> Response:
        """Change the tier or the weight, or disable the user and enable it again.

        The keys of a disabled user stop working. Live jobs are held until the user is enabled, or cancelled.
        """
        if change.jobs is not None and not change.disabled:
            raise InvalidFieldsError.of("jobs", "is valid only with disabled: true")
        changed = await users.change(
            _user(user_id),
            tier=None if change.tier is None else _tier(live.current, change.tier),
            disabled=change.disabled,
            weight=change.weight,
            jobs=change.jobs or DisabledJobs.HOLD,
            by=principal_of(request).actor,
        )
        keys.clear()
        notify_outbox()
        return view_response(user_view(changed))

    @routes.post(
        "/{user_id}/credit",
        responses={200: {"model": UserView}, **problems(400, 401, 403, 404, 409, 422, 503)},
    )
    async def change_credit(request: Request, user_id: UserPath, change: CreditChange) -> Response:
        """Add credit, or subtract it with a negative amount; never below zero."""
        user = _user(user_id)
        if change.amount != 0:
            balance = await credit.change(user, change.amount, change.note, by=principal_of(request).actor)
            keys.clear()
            if balance is None:
                await users.get(user)  # 404 when there is no such user
                raise CreditOutOfRangeError
        return view_response(user_view(await users.get(user)))

    return routes


def key_routes(users: UserStore, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(
        prefix="/admin/users/{user_id}/keys", tags=["users"], route_class=require_scope(keys, Scope.ADMIN)
    )

    @routes.get("", responses={200: {"model": KeyList}, **problems(401, 403, 404, 422, 503)})
    async def list_keys(user_id: UserPath) -> Response:
        user = await users.get(_user(user_id))
        return view_response(KeyList(keys=[key_view(key) for key in await users.keys(user.id)]))

    @routes.post(
        "",
        status_code=201,
        responses={201: {"model": KeyCreated}, **problems(400, 401, 403, 404, 422, 503)},
    )
    async def add_key(request: Request, user_id: UserPath, new: NewKey) -> Response:
        """Another key, which is shown only now."""
        user, key = await users.get(_user(user_id)), new_api_key()
        made = await users.add_key(
            user.id,
            key,
            sorted(set(new.scopes)),
            name=new.name,
            expires_at=_future(new.expires_at),
            by=principal_of(request).actor,
        )
        return view_response(KeyCreated(**key_view(made).model_dump(), key=key), 201)

    @routes.delete("/{key_id}", responses={200: {"model": KeyView}, **problems(401, 403, 404, 422, 503)})
    async def revoke_key(request: Request, user_id: UserPath, key_id: KeyPath) -> Response:
        """The key stops working: immediately in this process, within seconds in others."""
        revoked = await users.revoke(
            _user(user_id), KeyId(decode_id(KEY, key_id)), by=principal_of(request).actor
        )
        keys.clear()
        return view_response(key_view(revoked))

    return routes


def _tier(config: BeaconConfig, name: str) -> str:
    if name not in config.tiers:
        raise InvalidFieldsError.of("tier", f"there is no tier {name!r}; tiers are {', '.join(config.tiers)}")
    return name


def _user(text: str) -> UserId:
    return UserId(decode_id(USER, text))


def _future(time: datetime | None) -> datetime | None:
    if time is None or time > datetime.now(UTC):
        return time
    raise InvalidFieldsError.of("expires_at", "must be a time in the future")
