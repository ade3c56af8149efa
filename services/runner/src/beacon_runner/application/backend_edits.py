"""Changes of one backend or model, as edits of the document."""

from collections.abc import Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_runner.application.configuration import Document, Edit
from beacon_runner.domain.configuration import BackendExistsError, UnknownBackendError, UnknownModelError


def add_backend(name: str, settings: Mapping[str, Any]) -> Edit:
    def edit(document: Document, _: BeaconConfig) -> Document:
        if name in document["backends"]:
            raise BackendExistsError
        document["backends"][name] = dict(settings)
        return document

    return edit


def change_backend(name: str, changes: Mapping[str, Any]) -> Edit:
    """A key that is null is removed: its default applies."""

    def edit(document: Document, _: BeaconConfig) -> Document:
        merged = _backend(document, name) | dict(changes)
        document["backends"][name] = {key: value for key, value in merged.items() if value is not None}
        return document

    return edit


def remove_backend(name: str) -> Edit:
    """With it go the regions and models that no other backend has."""

    def edit(document: Document, before: BeaconConfig) -> Document:
        _backend(document, name)
        del document["backends"][name]
        left = [backend for other, backend in before.backends.items() if other != name]
        kept = {
            "regions": {backend.region for backend in left},
            "models": {model for backend in left for model in backend.models},
        }
        for section, names in kept.items():
            if section in document:
                document[section] = {key: value for key, value in document[section].items() if key in names}
        return document

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
