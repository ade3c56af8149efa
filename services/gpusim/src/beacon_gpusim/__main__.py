"""`python -m beacon_gpusim`: one simulated GPU endpoint, until SIGTERM or SIGINT."""

import gc

gc.disable()  # imports create no garbage

import sys

from pydantic import ValidationError

from beacon_config import ConfigError
from beacon_gpusim.settings import GpusimSettings
from beacon_gpusim.wiring import build
from beacon_lifecycle import run_process, tune_gc
from beacon_telemetry import configure_logging


def main() -> int:
    try:
        settings = GpusimSettings()
        settings.model_durations()
    except (ValidationError, ConfigError) as error:
        sys.stderr.write(f"gpusim cannot start: {error}\n")
        return 2
    configure_logging("gpusim", settings.log_format, settings.log_level)
    tune_gc()
    return run_process(lambda: build(settings))


if __name__ == "__main__":
    sys.exit(main())
