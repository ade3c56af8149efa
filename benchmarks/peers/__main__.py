"""`python -m benchmarks.peers`: install the other queues, then measure the runner and them."""

import sys

from benchmarks.peers.entries import install
from benchmarks.runner.__main__ import main

if __name__ == "__main__":
    install()
    sys.exit(main())
