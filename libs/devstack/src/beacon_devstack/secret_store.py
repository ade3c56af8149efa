"""The passwords and keys of one home, generated at its first start."""

import json
import secrets
from dataclasses import asdict, dataclass, fields

from beacon_contracts.api_keys import new_api_key
from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home, write_private


@dataclass(frozen=True, slots=True)
class Secrets:
    postgres_password: str
    redis_password: str
    user_key: str
    admin_key: str
    service_token: str

    def __repr__(self) -> str:
        return "Secrets(…)"

    @classmethod
    def fresh(cls) -> "Secrets":
        return cls(
            postgres_password=secrets.token_urlsafe(24),
            redis_password=secrets.token_urlsafe(24),
            user_key=new_api_key(),
            admin_key=new_api_key(),
            service_token=f"bs_{secrets.token_urlsafe(32)}",
        )

    @classmethod
    def of(cls, home: Home) -> "Secrets":
        """The secrets stored in this home; at the first start new ones are stored."""
        if not home.secrets.exists():
            fresh = cls.fresh()
            write_private(home.secrets, asdict(fresh))
            return fresh
        return cls._read(home)

    @classmethod
    def _read(cls, home: Home) -> "Secrets":
        names = {field.name for field in fields(cls)}
        try:
            kept = json.loads(home.secrets.read_text(encoding="utf-8"))
            return cls(**{name: str(kept[name]) for name in names})
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{home.secrets} cannot be read ({error!r}); `make clean` removes this home and its data"
            raise DevstackError("home", reason) from error
