"""Ports for servers that start after their port was chosen."""

import socket

import pytest

from beacon_devstack import ports
from beacon_devstack.errors import PortTakenError
from beacon_devstack.ports import PORT_RANGE, choose_port


def test_a_free_port_is_below_the_range_of_outgoing_connections() -> None:
    assert choose_port(0, component="router", setting="ROUTER_PORT") in PORT_RANGE


def test_a_requested_port_is_used_or_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} .* is taken .* ROUTER_PORT"):
            choose_port(port, component="router", setting="ROUTER_PORT")


def test_the_system_chooses_when_all_low_ports_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_is_free", lambda *_: False)
    assert choose_port(0, component="router", setting="ROUTER_PORT") > 0
