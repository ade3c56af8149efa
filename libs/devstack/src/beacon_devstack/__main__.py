"""`python -m beacon_devstack up|demo|clean`."""

import os
import shutil
import sys

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.up import run_demo, run_up


def clean() -> int:
    """Remove the home, unless a running system uses it."""
    home = Home.from_environment(os.environ)
    try:
        with home.locked({}):
            shutil.rmtree(home.path)
    except DevstackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["up"]:
            return run_up()
        case ["demo"]:
            return run_demo()
        case ["clean"]:
            return clean()
    sys.stderr.write(f"usage: {__doc__}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
