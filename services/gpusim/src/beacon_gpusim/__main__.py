"""`python -m beacon_gpusim`: one simulated GPU endpoint, until SIGTERM or SIGINT."""

import gc

gc.disable()  # while all is imported: nothing of it is garbage

import sys

from pydantic import ValidationError

from beacon_config import ConfigError
from beacon_gpusim.composition import build
from beacon_gpusim.settings import Settings
from beacon_lifecycle import run_process, tune_gc
from beacon_telemetry import configure_logging


def main() -> int:
    try:
        settings = Settings()
        settings.model_times()
    except (ValidationError, ConfigError) as error:
        sys.stderr.write(f"gpusim cannot start: {error}\n")
        return 2
    configure_logging("gpusim", settings.log_format, settings.log_level)
    tune_gc()
    return run_process(lambda: build(settings))


if __name__ == "__main__":
    sys.exit(main())
