"""The live configuration, with an administrator's key: revisions, backends, paused models."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from beacon_client.runner_http import RunnerHttp
from beacon_contracts.configuration import (
    ConfigChange,
    ConfigDocumentView,
    ConfigRevisionList,
    ConfigRevisionView,
    ConfigRollback,
    ConfiguredBackends,
    ConfigView,
)

CONFIG = "/admin/config"
PAGE = 100


class ConfigurationClient:
    """Each change makes a revision. `dry_run` only reports its effects; `force` allows it to strand work."""

    def __init__(self, http: RunnerHttp) -> None:
        self._http = http

    async def get(self) -> ConfigView:
        """The newest revision with its document, and the revisions that the routers run on."""
        return ConfigView.model_validate_json(await self._http.get(CONFIG))

    async def revision(self, number: int) -> ConfigDocumentView:
        """One revision with its document."""
        return ConfigDocumentView.model_validate_json(await self._http.get(f"{CONFIG}/revisions/{number}"))

    async def revisions(self) -> AsyncIterator[ConfigRevisionView]:
        """All revisions without their documents, newest first; pages are fetched on demand."""
        before: int | None = None
        while True:
            answer = await self._http.get(f"{CONFIG}/revisions", {"limit": PAGE, "before": before})
            page = ConfigRevisionList.model_validate_json(answer)
            for revision in page.revisions:
                yield revision
            before = page.next_before
            if before is None:
                return

    async def replace(
        self,
        document: Mapping[str, Any],
        *,
        revision: int,
        comment: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> ConfigChange:
        """Apply a document; refused if `revision` is not the newest one."""
        path = CONFIG + _query(force=force, dry_run=dry_run, comment=comment)
        return _change(
            await self._http.put(
                path, _json(document), headers={"if-match": f'"{revision}"'}, repeatable=dry_run
            )
        )

    async def roll_back(
        self, revision: int, *, comment: str = "", force: bool = False, dry_run: bool = False
    ) -> ConfigChange:
        """Apply an earlier revision again, as a new one."""
        path = f"{CONFIG}/rollback" + _query(force=force, dry_run=dry_run)
        body = ConfigRollback(revision=revision, comment=comment).model_dump_json().encode()
        return _change(await self._http.post(path, body, repeatable=True))

    async def backends(self) -> ConfiguredBackends:
        """All backends, with what the routers report about each."""
        return ConfiguredBackends.model_validate_json(await self._http.get("/admin/backends"))

    async def add_backend(
        self, name: str, settings: Mapping[str, Any], *, force: bool = False, dry_run: bool = False
    ) -> ConfigChange:
        """`settings`: keys of [backends.<name>]. New regions and models come with it."""
        path = "/admin/backends" + _query(force=force, dry_run=dry_run)
        return _change(await self._http.post(path, _json({"name": name, **settings}), repeatable=dry_run))

    async def change_backend(
        self, name: str, settings: Mapping[str, Any], *, force: bool = False, dry_run: bool = False
    ) -> ConfigChange:
        """Change some keys; None restores a default."""
        path = _backend(name) + _query(force=force, dry_run=dry_run)
        return _change(await self._http.patch(path, _json(settings)))

    async def drain_backend(self, name: str) -> ConfigChange:
        """Start no further request on a backend; the running ones end."""
        return _change(await self._http.post(f"{_backend(name)}/drain", repeatable=True))

    async def resume_backend(self, name: str) -> ConfigChange:
        """End a drain."""
        return _change(await self._http.post(f"{_backend(name)}/resume", repeatable=True))

    async def remove_backend(self, name: str, *, force: bool = False, dry_run: bool = False) -> ConfigChange:
        """Remove a backend, with the models and regions that no other backend has."""
        path = _backend(name) + _query(force=force, dry_run=dry_run)
        return _change(await self._http.delete(path, repeatable=dry_run))

    async def pause_model(self, name: str) -> ConfigChange:
        """Start no request for a model: they are accepted and wait; running ones end."""
        return _change(await self._http.post(f"{_model(name)}/pause", repeatable=True))

    async def resume_model(self, name: str) -> ConfigChange:
        """End a pause."""
        return _change(await self._http.post(f"{_model(name)}/resume", repeatable=True))


def _backend(name: str) -> str:
    return f"/admin/backends/{quote(name, safe='')}"


def _model(name: str) -> str:
    return f"/admin/models/{quote(name, safe='')}"


def _query(*, comment: str = "", **flags: bool) -> str:
    given = {name: "true" for name, value in flags.items() if value}
    if comment:
        given["comment"] = comment
    return f"?{urlencode(given)}" if given else ""


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _change(answer: bytes) -> ConfigChange:
    return ConfigChange.model_validate_json(answer)
