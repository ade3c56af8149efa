"""The configuration of a process: the newest revision in Postgres, followed while the process runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Gauge

from beacon_config import ConfigError, LiveConfig, load_config, parse_document, read_document
from beacon_config.differences import differences
from beacon_config.secrets import literal_secrets
from beacon_contracts.audit import AuditAction
from beacon_contracts.configuration import ConfigChange
from beacon_lifecycle import Clock, Loop, ReloadOnSignal, RunResult, Service, WakeEvent
from beacon_runner.application.configuration import ChangeRequest, ConfigService
from beacon_runner.domain.accounts.audit import SYSTEM
from beacon_runner.domain.configuration import ConfigConflictError, StrandedWorkError
from beacon_runner.domain.errors import InvalidFieldsError, StoreUnavailableError
from beacon_runner.maintenance.config_push import ConfigPush
from beacon_runner.ports.configuration import ConfigStore, RouterConfigs
from beacon_runner.postgres.config_revisions import PostgresConfigRevisions
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.listener import PostgresListener
from beacon_runner.wiring.resources import Resource

log = structlog.get_logger(__name__)

CHANNEL = "config"
POLL_S = 2.0
MAX_BACKOFF_S = 5.0


class ConfigFollower:
    """Applies each new revision to this process."""

    def __init__(self, store: ConfigStore, live: LiveConfig, environ: Mapping[str, str]) -> None:
        self._store = store
        self._live = live
        self._environ = environ
        self._refused: int | None = None

    async def run_once(self) -> RunResult:
        number = await self._store.newest_number()
        if number is None or number in (self._live.revision, self._refused):
            return RunResult(0)
        newest = await self._store.newest()
        if newest is None:
            return RunResult(0)
        revision = newest.entry.revision
        try:
            config = parse_document(newest.document, self._environ)
        except ConfigError as error:  # a later version of Beacon stored it
            self._refused = revision
            log.error("config_not_applied", revision=revision, error=str(error))  # noqa: TRY400
            return RunResult(0)
        self._live.replace(config, revision, newest.entry.created_at)
        log.info("config_applied", revision=revision)
        return RunResult(1)


class ProcessConfig:
    """The configuration of a process, with the connection that reads it."""

    def __init__(self, database_url: str, path: Path, environ: Mapping[str, str]) -> None:
        self._url = database_url
        self._path = path
        self._environ = environ
        self.database = Database(database_url, size=2, name="beacon-config")
        self.store = PostgresConfigRevisions(self.database)
        self.wakeup = WakeEvent()
        self.pushed = WakeEvent()
        self.service = ConfigService(self.store, self.wakeup.set)

    async def load(self) -> LiveConfig:
        """The newest revision; the file becomes the first one, and applies while Postgres is unavailable."""
        await self.database.open()
        live = LiveConfig(load_config(self._path, self._environ))
        live.on_change.append(self.pushed.set)
        try:
            await seed(self.store, self._path)
            await ConfigFollower(self.store, live, self._environ).run_once()
        except StoreUnavailableError as error:
            log.warning("config_from_file", path=str(self._path), error=str(error))
        return live

    def services(self, live: LiveConfig, clock: Clock, registry: CollectorRegistry) -> Sequence[Service]:
        """After SIGHUP the file is applied as a new revision, if it differs from the newest one."""
        applied = Gauge(
            "beacon_runner_config_revision",
            "Revision of the configuration that applies; 0: the file",
            registry=registry,
        )
        applied.set_function(lambda: live.revision or 0)
        loop = Loop(
            "config",
            ConfigFollower(self.store, live, self._environ).run_once,
            interval_s=POLL_S,
            clock=clock,
            wakeup=self.wakeup,
            max_backoff_s=MAX_BACKOFF_S,
        )
        return [
            Resource("config-database", close_it=self.database.close),
            PostgresListener(self._url, CHANNEL, self.wakeup.set),
            loop,
            ReloadOnSignal(self._reload),
        ]

    def push_loop(self, routers: RouterConfigs, clock: Clock) -> Loop:
        """Of the relay."""
        push = ConfigPush(self.store, routers)
        return Loop(
            "config-push",
            push.run_once,
            interval_s=POLL_S,
            clock=clock,
            wakeup=self.pushed,
            max_backoff_s=MAX_BACKOFF_S,
        )

    async def _reload(self) -> None:
        try:
            change = await apply_file(self.service, self._path, comment=f"SIGHUP: {self._path.name}")
        except (*REFUSALS, StoreUnavailableError) as error:
            log.error("config_not_reloaded", path=str(self._path), error=str(error))  # noqa: TRY400
        else:
            log.info("config_reloaded", revision=change.revision, applied=change.applied)


async def file_changed(store: ConfigStore, path: Path) -> bool:
    """Whether the file differs from what was last read from a file: changes that were made since are kept."""
    before = await store.newest_of_file()
    after = load_config(path, {})
    try:
        return before is None or bool(differences(parse_document(before.document, {}), after))
    except ConfigError:  # another version of Beacon stored it
        return True


REFUSALS = (ConfigError, InvalidFieldsError, StrandedWorkError, ConfigConflictError)


async def seed(store: ConfigStore, path: Path) -> bool:
    """The file becomes the first revision; False if there is one. Raises ConfigError."""
    if await store.newest_number() is not None:
        return False
    document = read_document(path)
    if found := literal_secrets(document):
        raise ConfigError("\n".join(f"{path}: {key}: {reason}" for key, reason in found), found)
    parse_document(document, {})
    added = await store.add(
        document, after=0, comment=f"from {path.name}", by=SYSTEM, action=AuditAction.CONFIG_CHANGED
    )
    return added is not None


async def apply_file(
    service: ConfigService, path: Path, *, comment: str, force: bool = False, simulates: bool = False
) -> ConfigChange:
    """The file becomes the newest revision, if it differs. Raises one of REFUSALS."""
    document = read_document(path)
    request = ChangeRequest(SYSTEM, comment, force, simulates=simulates)
    return await service.edit(lambda *_: document, request)
