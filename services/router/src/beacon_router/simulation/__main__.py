"""`python -m beacon_router.simulation`: simulates a load and prints its report as JSON."""

import argparse
import os
import sys
from pathlib import Path

from beacon_config import ConfigError, load_config
from beacon_router.scheduler_config import policy_of, topology_of
from beacon_router.simulation.load import GeneratedLoad, LoadError, generate, read_load
from beacon_router.simulation.simulator import LoadSimulation
from beacon_router.simulation.summary import summarise


def main() -> int:
    default = GeneratedLoad()
    parser = argparse.ArgumentParser(prog="python -m beacon_router.simulation", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--requests", type=int, default=default.requests)
    parser.add_argument("--load", type=float, default=default.load)
    parser.add_argument("--users", type=int, default=default.users)
    parser.add_argument("--bursts", action="store_true")
    parser.add_argument("--seed", type=int, default=default.seed)
    options = parser.parse_args()
    try:
        config = load_config(options.config, os.environ)
        topology, tiers = topology_of(config), list(config.tiers)
        if options.trace:
            arrivals = read_load(options.trace, topology, tiers, options.seed)
        else:
            settings = GeneratedLoad(
                options.requests, options.load, options.users, options.bursts, options.seed
            )
            arrivals = generate(topology, tiers, settings)
        runs = LoadSimulation(topology, policy_of(config)).run(arrivals)
    except (ConfigError, LoadError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except UnicodeDecodeError:
        sys.stderr.write(f"{options.trace}: not a text file in UTF-8\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        return 2
    sys.stdout.write(summarise(topology, runs).model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
