"""Applies revisions of the configuration to the running router, each as a whole or not at all."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from beacon_config import BeaconConfig, ConfigError, LiveConfig, load_config, parse_document
from beacon_config.topology import BackendConfig
from beacon_contracts.configuration import RouterConfigRequest, RouterConfigView
from beacon_lifecycle import Clock
from beacon_router.backend_pool import BackendPool
from beacon_router.backends import BackendKeyError, check_backends
from beacon_router.scheduler_config import policy_of, run_rules_of, scaled_to_zero, topology_of
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.health import HealthChecks
from beacon_router.service.shared_capacity import SharedCapacity

log = structlog.get_logger(__name__)

_SERVER_KEYS = (
    "url",
    "dialect",
    "health_url",
    "api_key_env",
    "headers",
    "basic_auth",
    "verify",
    "ca",
    "proxy",
)
"""Keys of a backend without which it is another server: what is known of its health is void."""


class RouterConfiguration:
    """A revision that cannot be applied changes nothing. Without one, the file applies."""

    def __init__(
        self,
        live: LiveConfig,
        dispatch: DispatchService,
        pool: BackendPool,
        checks: HealthChecks,
        clock: Clock,
        *,
        capacity: SharedCapacity | None,
        recheck: Callable[[], None],
        environ: Mapping[str, str],
        file: Path,
        state_file: Path | None,
    ) -> None:
        self._live = live
        self._dispatch = dispatch
        self._pool = pool
        self._checks = checks
        self._clock = clock
        self._capacity = capacity
        self._recheck = recheck
        self._environ = environ
        self._file = file
        self._state_file = state_file
        self._view = self._applied()
        self._refused: RouterConfigRequest | None = None

    def view(self) -> RouterConfigView:
        return self._view

    def apply(self, request: RouterConfigRequest) -> RouterConfigView:
        """A revision that is older than the current one is ignored."""
        if self._live.created_at is not None and request.created_at <= self._live.created_at:
            return self._view
        try:
            self._adopt(parse_document(request.document, self._environ), request)
        except (ConfigError, BackendKeyError) as error:
            errors = str(error).splitlines()
            log.error("config_not_applied", revision=request.revision, errors=errors)  # noqa: TRY400
            refused = {"refused": request.revision, "refused_created_at": request.created_at}
            self._view = self._view.model_copy(update={**refused, "errors": errors})
            self._refused = request
        else:
            self._save(request)
            self._refused = None
        return self._view

    async def reload(self) -> None:
        """Read the file again. It applies only while the runner has sent no revision; a revision that was
        refused is tried again, because a file that it names may be there now."""
        if self._refused is not None:
            self.apply(self._refused)
            return
        if self._live.revision is not None:
            log.warning("config_file_ignored", revision=self._live.revision, path=str(self._file))
            return
        try:
            self._adopt(load_config(self._file, self._environ), None)
        except (ConfigError, BackendKeyError) as error:
            log.error("config_not_applied", path=str(self._file), errors=str(error).splitlines())  # noqa: TRY400

    def _adopt(self, config: BeaconConfig, request: RouterConfigRequest | None) -> None:
        """`request`: where it is from; None: from the file."""
        before = self._live.current
        check_backends(config.backends, self._environ)
        self._pool.adopt(config, self._environ)
        topology = topology_of(config, replicas=self._capacity is not None)
        self._dispatch.adopt(
            topology,
            policy_of(config),
            run_rules_of(config),
            ranks=[config.rank_of(tier) for tier in before.tiers],
            replaced=_replaced(before, config),
            scale_to_zero=scaled_to_zero(config),
            queue_size=config.router.queue_size,
        )
        scheduled = self._dispatch.scheduler.topology
        self._pool.keep_only({backend.name for backend in scheduled.backends})
        if self._capacity is not None:
            self._capacity.adopt(scheduled)
        if request is None:
            self._live.replace(config)
        else:
            self._live.replace(config, request.revision, request.created_at)
        self._checks.adopt(self._pool.health_urls, self._pool.transports)
        self._recheck()
        self._dispatch.runs.dispatch_ready()
        self._view = self._applied()
        log.info("config_applied", revision=self._view.revision)

    def _applied(self) -> RouterConfigView:
        live = self._live
        return RouterConfigView(
            revision=live.revision, created_at=live.created_at, applied_at=self._clock.wall()
        )

    def _save(self, request: RouterConfigRequest) -> None:
        """So that it applies after a restart too, when the runner does not answer."""
        if self._state_file is None:
            return
        try:
            written = self._state_file.with_suffix(".new")
            written.write_text(request.model_dump_json(), encoding="utf-8")
            written.replace(self._state_file)
        except OSError as error:
            log.warning("config_not_saved", path=str(self._state_file), error=str(error))


def first_config(file: Path, state_file: Path | None, environ: Mapping[str, str]) -> LiveConfig:
    """The revision that this router applied last, else its file. Raises ConfigError and BackendKeyError."""
    if state_file is not None:
        with suppress(FileNotFoundError):
            return _saved(state_file, environ)
    config = load_config(file, environ)
    check_backends(config.backends, environ)
    return LiveConfig(config)


def _saved(state_file: Path, environ: Mapping[str, str]) -> LiveConfig:
    try:
        saved: dict[str, Any] = json.loads(state_file.read_text(encoding="utf-8"))
        request = RouterConfigRequest.model_validate(saved)
        config = parse_document(request.document, environ)
        check_backends(config.backends, environ)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, ConfigError, BackendKeyError) as error:
        log.warning("saved_config_ignored", path=str(state_file), error=str(error))
        raise FileNotFoundError from error
    return LiveConfig(config, request.revision, request.created_at)


def _replaced(before: BeaconConfig, after: BeaconConfig) -> set[str]:
    """Backends of the same name that are another server now."""
    return {
        name
        for name in before.backends.keys() & after.backends.keys()
        if _server(before.backends[name]) != _server(after.backends[name])
    }


def _server(backend: BackendConfig) -> tuple[object, ...]:
    return tuple(getattr(backend, key) for key in _SERVER_KEYS)
