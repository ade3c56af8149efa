"""Changes of one backend or model, as edits of the document."""

from collections.abc import Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_config.topology import DEFAULT_REGION
from beacon_runner.application.configuration import Document, Edit
from beacon_runner.domain.configuration import BackendExistsError, UnknownBackendError, UnknownModelError


def add_backend(name: str, settings: Mapping[str, Any]) -> Edit:
    """With it come its region and its models, where they are new."""

    def edit(document: Document, _: BeaconConfig) -> Document:
        if name in document["backends"]:
            raise BackendExistsError
        document["backends"][name] = dict(settings)
        return _with_served_names(document)

    return edit


def change_backend(name: str, changes: Mapping[str, Any]) -> Edit:
    """A key that is null is removed: its default applies."""

    def edit(document: Document, _: BeaconConfig) -> Document:
        merged = _backend(document, name) | dict(changes)
        document["backends"][name] = {key: value for key, value in merged.items() if value is not None}
        return _with_served_names(document)

    return edit


def remove_backend(name: str) -> Edit:
    """With it go the regions and models that no other backend has."""

    def edit(document: Document, _: BeaconConfig) -> Document:
        _backend(document, name)
        del document["backends"][name]
        return _with_served_names(document)

    return edit


def pause_model(name: str, *, paused: bool) -> Edit:
    def edit(document: Document, before: BeaconConfig) -> Document:
        if name not in before.models:
            raise UnknownModelError
        models = document.setdefault("models", {model: {} for model in before.models})
        models[name] = {**models[name], "paused": paused}
        return document

    return edit


def _backend(document: Document, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = document["backends"].get(name)
    if found is None:
        raise UnknownBackendError
    return found


def _with_served_names(document: Document) -> Document:
    """The sections of regions and models, where the document has them, name those of its backends."""
    backends = [backend for backend in document["backends"].values() if isinstance(backend, dict)]
    regions = _names([backend.get("region", DEFAULT_REGION) for backend in backends])
    models = [model for backend in backends for model in _names(backend.get("models"))]
    for section, names in (("regions", regions), ("models", models)):
        if section in document:
            known = document[section]
            kept = {name: settings for name, settings in known.items() if name in names}
            document[section] = kept | {name: {} for name in names if name not in known}
    return document


def _names(value: object) -> list[str]:
    """What is not a list of names is refused by the validation that follows."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
