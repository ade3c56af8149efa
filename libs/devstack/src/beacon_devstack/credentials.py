"""What a running system tells its owner: where it is, and the keys to it."""

import json
from dataclasses import asdict, dataclass, fields

from beacon_devstack.home import Home, write_private


@dataclass(frozen=True, slots=True)
class Credentials:
    """What `credentials.json` holds while the system is ready."""

    runner_url: str
    router_url: str
    portal_url: str
    user_key: str
    admin_key: str
    service_token: str

    def __repr__(self) -> str:
        return f"Credentials({self.runner_url}, …)"

    @classmethod
    def of(cls, home: Home) -> "Credentials | None":
        """Those of the system that is ready there; None when none is."""
        try:
            kept = json.loads(home.credentials.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(**{field.name: str(kept[field.name]) for field in fields(cls)})

    def write(self, home: Home) -> None:
        write_private(home.credentials, asdict(self))
