"""Changes of the configuration: validated, compared with the queued work, stored as a new revision."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beacon_config import BeaconConfig, ConfigError, parse_document
from beacon_config.differences import differences, restart_needed
from beacon_config.secrets import literal_secrets
from beacon_contracts.audit import AuditAction
from beacon_contracts.configuration import ConfigChange, ConfigDifference, StrandedWork
from beacon_contracts.problem import FieldProblem
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.configuration import (
    ConfigConflictError,
    ConfigEntry,
    ConfigRevision,
    StrandedWorkError,
    UnknownRevisionError,
    classes_without_pool,
    less_served_models,
    unserved_by,
)
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.ports.configuration import ConfigStore

Document = dict[str, Any]
Edit = Callable[[Document, BeaconConfig], Document]

EDIT_TRIES = 10
_SIMULATED = "simulated backends are started by `make up`, from its file; restart it with the new file"


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """`force`: also if it strands unfinished work. `dry_run`: only report the effect."""

    by: Actor
    comment: str = ""
    force: bool = False
    dry_run: bool = False
    action: AuditAction = AuditAction.CONFIG_CHANGED
    target: str | None = None
    simulates: bool = False
    """Simulated backends may be added."""


class ConfigService:
    def __init__(self, store: ConfigStore, on_change: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_change = on_change
        self._editing = asyncio.Lock()

    async def newest(self) -> ConfigRevision:
        newest = await self._store.newest()
        if newest is None:
            raise UnknownRevisionError("no revision is stored yet")
        return newest

    async def revision(self, number: int) -> ConfigRevision:
        found = await self._store.revision(number)
        if found is None:
            raise UnknownRevisionError(f"there is no revision {number}")
        return found

    async def page(self, before: int | None, limit: int) -> Sequence[ConfigEntry]:
        """Revisions, newest first."""
        return await self._store.page(before, limit)

    async def replace(self, document: Document, request: ChangeRequest, *, expected: int) -> ConfigChange:
        """Raises ConfigConflictError if `expected` is not the newest revision."""
        newest = await self.newest()
        if newest.entry.revision != expected:
            raise ConfigConflictError(newest.entry.revision)
        change = await self._replace(newest, document, request)
        if change is None:
            raise ConfigConflictError((await self.newest()).entry.revision)
        return change

    async def edit(self, edit: Edit, request: ChangeRequest) -> ConfigChange:
        """Change a copy of the newest document; again if another process stored a revision meanwhile."""
        async with self._editing:
            for _ in range(EDIT_TRIES):
                newest = await self.newest()
                copy: Document = json.loads(json.dumps(newest.document))
                changed = edit(copy, parse_document(copy, {}))
                change = await self._replace(newest, changed, request)
                if change is not None:
                    return change
        raise ConfigConflictError((await self.newest()).entry.revision)

    async def roll_back(self, revision: int, request: ChangeRequest) -> ConfigChange:
        """An earlier document as a new revision."""
        document = dict((await self.revision(revision)).document)
        return await self.edit(lambda *_: document, request)

    async def _replace(
        self, newest: ConfigRevision, document: Document, request: ChangeRequest
    ) -> ConfigChange | None:
        """None: another revision was stored meanwhile."""
        before = parse_document(newest.document, {})
        after = _checked(document, simulated=None if request.simulates else await self._simulated(before))
        changes = differences(before, after)
        stranded = await self._stranded(before, after)
        change = ConfigChange(
            revision=newest.entry.revision,
            applied=False,
            differences=[ConfigDifference(key=key, before=old, after=new) for key, old, new in changes],
            stranded=stranded,
            restart_needed=restart_needed(changes),
        )
        if request.dry_run or not changes:
            return change
        if stranded and not request.force:
            raise StrandedWorkError(stranded)
        revision = await self._store.add(
            document,
            after=newest.entry.revision,
            comment=request.comment,
            by=request.by,
            action=request.action,
            target=request.target,
            details={"keys": [one.key for one in changes[:20]]},
        )
        if revision is None:
            return None
        self._on_change()
        return change.model_copy(update={"revision": revision, "applied": True})

    async def _simulated(self, before: BeaconConfig) -> set[str]:
        """The simulated backends that there are, and those that `make up` has started from its file."""
        file = await self._store.newest_of_file()
        names = {name for name, backend in before.backends.items() if backend.simulated}
        given = {} if file is None else file.document["backends"]
        return names | {name for name, backend in given.items() if backend.get("simulated")}

    async def _stranded(self, before: BeaconConfig, after: BeaconConfig) -> list[StrandedWork]:
        models = less_served_models(before, after)
        found = await self._store.stranded(models, unserved_by(after)) if models else {}
        classes = classes_without_pool(before, after)
        jobs = await self._store.live_jobs(classes) if classes else {}
        return [
            *(
                StrandedWork(model=model, region=region, executions=count)
                for (model, region), count in sorted(found.items())
            ),
            *(StrandedWork(job_class=name, jobs=count) for name, count in sorted(jobs.items())),
        ]


def _checked(document: Mapping[str, Any], *, simulated: set[str] | None) -> BeaconConfig:
    """The configuration; raises InvalidFieldsError with each wrong key. `simulated`: the backends that may be
    simulated; None: all."""
    problems = literal_secrets(document)
    try:
        config = parse_document(document, {})
    except ConfigError as error:
        raise _invalid([*problems, *error.problems]) from error
    if simulated is not None:
        wanted = (name for name, backend in config.backends.items() if backend.simulated)
        problems += [(f"backends.{name}.simulated", _SIMULATED) for name in wanted if name not in simulated]
    if problems:
        raise _invalid(problems)
    return config


def _invalid(problems: list[tuple[str, str]]) -> InvalidFieldsError:
    return InvalidFieldsError(
        [FieldProblem(field=key or "document", message=reason, code="invalid") for key, reason in problems]
    )
