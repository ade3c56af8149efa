"""`python -m beacon_runner <role>`: migrate, bootstrap, or one process with one of the runner's roles."""

import gc

gc.disable()  # while all is imported: nothing of it is garbage

import argparse
import asyncio
import logging
import os
import sys

import structlog
from pydantic import ValidationError

from beacon_config import ConfigError, load_config
from beacon_lifecycle import run_process, tune_gc
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.migrations import ChangedMigrationError, UnknownVersionError
from beacon_runner.settings import BootstrapSettings, DatabaseSettings, Role, RunnerSettings
from beacon_telemetry import configure_logging

log = structlog.get_logger("beacon.runner")

# What only one of them needs is imported by it: all of it takes each of them two seconds to load.
MIGRATE = "migrate"
BOOTSTRAP = "bootstrap"


def main() -> int:
    parser = argparse.ArgumentParser(prog="beacon-runner", description=__doc__)
    parser.add_argument("role", choices=[MIGRATE, BOOTSTRAP, *Role])
    role = parser.parse_args().role
    try:
        match role:
            case "migrate":
                return _migrate()
            case "bootstrap":
                return _bootstrap()
            case _:
                return _run(Role(role))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            sys.stderr.write(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}\n")
    except (
        ChangedMigrationError,
        ConfigError,
        StoreUnavailableError,
        UnknownVersionError,
        OSError,
    ) as error:
        sys.stderr.write(f"the runner cannot {role}: {error}\n")
    return 2


def _migrate() -> int:
    from beacon_runner.migrations import head, migrate  # noqa: PLC0415

    settings = DatabaseSettings()
    configure_logging("runner", settings.log_format, settings.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(migrate.upgrade(settings.database_url))
    log.info("migrated", version=head())
    return 0


def _bootstrap() -> int:
    from beacon_runner.wiring.bootstrap import bootstrap  # noqa: PLC0415

    settings = BootstrapSettings()
    configure_logging("runner", settings.log_format, settings.log_level)
    made = asyncio.run(bootstrap(settings, os.environ))
    for user, key in made.items():
        sys.stdout.write(f"{user}: {key}\n")
    log.info("bootstrapped")
    return 0


def _run(role: Role) -> int:
    from beacon_runner.wiring.roles import build  # noqa: PLC0415

    settings = RunnerSettings()
    configure_logging("runner", settings.log_format, settings.log_level)
    load_config(settings.config_path, os.environ)  # an invalid file is refused at once
    tune_gc()
    return run_process(lambda: build(role, settings, os.environ))


if __name__ == "__main__":
    sys.exit(main())
