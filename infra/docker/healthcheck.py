# noqa: INP001 - copied into the image alone
"""The health check of the image: exits 0 if /healthz answers 200."""

import os
import sys
import urllib.error
import urllib.request

URL = f"http://127.0.0.1:{os.environ['BEACON_HEALTH_PORT']}/healthz"


def main() -> int:
    try:
        with urllib.request.urlopen(URL, timeout=2.5) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        sys.stderr.write(f"{URL}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
