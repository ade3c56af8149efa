"""A separate process for tests: runs both servers in a home directory until it is stopped or killed."""

import asyncio
import json
import signal
import sys

from beacon_devstack.home import Home
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.running import ServerSettings, running_servers


async def main(path: str) -> None:
    home = Home.at(path)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with home.locked({}):
        async with running_servers(home, Secrets.of(home), ServerSettings()) as servers:
            report = {
                "database_url": servers.database_url,
                "redis_url": servers.redis_url,
                "pids": [server.child.pid for server in servers.embedded],
            }
            sys.stdout.write(json.dumps(report) + "\n")
            sys.stdout.flush()
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
