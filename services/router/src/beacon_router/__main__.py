"""`python -m beacon_router`: one router, until SIGTERM or SIGINT."""

import gc

gc.disable()  # while all is imported: nothing of it is garbage

import os
import sys

from pydantic import ValidationError

from beacon_config import ConfigError
from beacon_lifecycle import run_process, tune_gc
from beacon_router.backends import BackendKeyError
from beacon_router.configuration import first_config
from beacon_router.settings import Settings
from beacon_router.wiring import build
from beacon_telemetry import configure_logging

_YOUNG = 5_000  # pauses of 2 to 6 ms; with 1,000 they are shorter, but cost 4 % of the CPU


def main() -> int:
    try:
        settings = Settings()
        live = first_config(settings.config, settings.state_file, os.environ)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            key = ".".join(map(str, problem["loc"]))
            sys.stderr.write(f"the router cannot start: {key}: {problem['msg']}\n")
        return 2
    except (ConfigError, BackendKeyError) as error:
        sys.stderr.write(f"the router cannot start: {error}\n")
        return 2
    configure_logging("router", settings.log_format, settings.log_level)
    tune_gc(young=_YOUNG)
    return run_process(lambda: build(settings, live, os.environ))


if __name__ == "__main__":
    sys.exit(main())
