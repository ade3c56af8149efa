"""`python -m beacon_router`: one router, until SIGTERM or SIGINT."""

import gc
import os
import sys

from pydantic import ValidationError

from beacon_config import ConfigError, load_config
from beacon_lifecycle import run_process
from beacon_router.composition import build
from beacon_router.settings import Settings
from beacon_telemetry import configure_logging


def main() -> int:
    try:
        settings = Settings()
        config = load_config(settings.config, os.environ)
    except (ValidationError, ConfigError) as error:
        sys.stderr.write(f"the router cannot start: {error}\n")
        return 2
    configure_logging("router", settings.log_format, settings.log_level)
    _collect_garbage_rarely()
    return run_process(lambda: build(settings, config, os.environ))


def _collect_garbage_rarely() -> None:
    """What is loaded by now stays; what a request makes is freed by counting, so the search may be rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


if __name__ == "__main__":
    sys.exit(main())
