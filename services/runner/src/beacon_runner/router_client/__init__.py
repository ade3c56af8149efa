"""HTTP client of the routers: the adapter behind `ports.router`."""

from beacon_runner.router_client.client import RouterClient, RouterTimeouts

__all__ = ["RouterClient", "RouterTimeouts"]
