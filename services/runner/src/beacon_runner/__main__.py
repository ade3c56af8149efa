"""`python -m beacon_runner <role>`: one process with one of the runner's roles."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable

import structlog
from pydantic import ValidationError

from beacon_runner.migrations import migrate
from beacon_runner.settings import DatabaseSettings
from beacon_telemetry import configure_logging

log = structlog.get_logger("beacon.runner")


def _migrate() -> int:
    settings = DatabaseSettings()
    configure_logging("runner", settings.log_format, settings.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(migrate.upgrade(settings.database_url))
    log.info("migrated", version=migrate.head())
    return 0


COMMANDS: dict[str, Callable[[], int]] = {"migrate": _migrate}


def main() -> int:
    parser = argparse.ArgumentParser(prog="beacon-runner", description=__doc__)
    parser.add_argument("role", choices=sorted(COMMANDS))
    command = COMMANDS[parser.parse_args().role]
    try:
        return command()
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            sys.stderr.write(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
