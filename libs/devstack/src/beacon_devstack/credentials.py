"""Reads and writes `credentials.json`, which exists while the system is ready."""

import json
from dataclasses import asdict, fields

from beacon_contracts.credentials import Credentials
from beacon_devstack.home import Home, write_private


def read_credentials(home: Home) -> Credentials | None:
    """The credentials of the system that is ready in this home; None if there is none."""
    try:
        kept = json.loads(home.credentials.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Credentials(**{field.name: str(kept[field.name]) for field in fields(Credentials)})


def write_credentials(home: Home, credentials: Credentials) -> None:
    write_private(home.credentials, asdict(credentials))
