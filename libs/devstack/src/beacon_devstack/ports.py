"""Loopback ports: any free one, or an error that names the process which holds the given one."""

import random
import socket
from contextlib import suppress

import psutil

from beacon_devstack.errors import PortTakenError

LOOPBACK = "127.0.0.1"
LOOPBACK_NETWORKS = "127.0.0.0/8,::1/128"  # receivers of webhooks on this machine

# Below the range of outgoing connections, one of which could take a port between our choice and the start of
# the server, or during a restart.
PORT_RANGE = range(20_000, 32_000)
MAX_TRIES = 100


def choose_port(wanted: int, *, component: str, setting: str, host: str = LOOPBACK) -> int:
    """`wanted` itself when it is free, any free port for 0; raises PortTakenError otherwise."""
    if wanted == 0:
        wanted = next((port for port in random.sample(PORT_RANGE, MAX_TRIES) if _is_free(port, host)), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port in TIME_WAIT from the last run is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except PermissionError as error:
            raise PortTakenError(
                component, f"port {wanted} needs privileges; set {setting} above 1023"
            ) from error
        except OSError as error:
            raise PortTakenError(component, port_taken_reason(wanted, setting=setting, host=host)) from error
        return int(probe.getsockname()[1])


def _is_free(port: int, host: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def port_taken_reason(port: int, *, setting: str, host: str = LOOPBACK) -> str:
    return (
        f"port {port} on {host} is taken{_holder(port)}; "
        f"stop what uses it, or set {setting} to another port (0 = any free one)"
    )


def _holder(port: int) -> str:
    # Without privileges the holder of a port may be hidden; the message then does not name it.
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            address = connection.laddr
            if (
                connection.status == psutil.CONN_LISTEN
                and address
                and address.port == port
                and connection.pid
            ):
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""
