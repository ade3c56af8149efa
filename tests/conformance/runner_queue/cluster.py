"""A real Redis Cluster of three nodes, from the same binary as the embedded server."""

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_devstack.servers.redis import server_program
from tests.fixtures.waiting import eventually

SLOTS = 16_384
BUS_OFFSET = 10_000


@contextmanager
def redis_cluster(folder: Path) -> Iterator[str]:
    """The address of a node of a fresh cluster."""
    with ExitStack() as running:
        ports = _free_ports(3)
        nodes = [running.enter_context(_node(folder / str(port), port)) for port in ports]
        _join(nodes, ports)
        yield f"redis://127.0.0.1:{ports[0]}"


def flush(url: str) -> None:
    with Redis.from_url(url) as entry:
        places = [line.split()[1].split(b"@")[0].split(b":") for line in _node_lines(entry)]
    for host, port in places:
        with Redis(host=host.decode(), port=int(port)) as node:
            node.flushall()


@contextmanager
def _node(folder: Path, port: int) -> Iterator[Redis]:
    folder.mkdir()
    settings = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": folder,
        "cluster-enabled": "yes",
        "cluster-node-timeout": 5000,
        "save": '""',
        "appendonly": "no",
    }
    (folder / "redis.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([server_program(), folder / "redis.conf"], stdout=log, stderr=log)
    try:
        with Redis(port=port) as node:
            eventually(lambda: _answers(node), "the node answers")
            yield node
    finally:
        process.kill()
        process.wait()


def _command(node: Redis, *words: object) -> Any:
    run: Any = node.execute_command
    return run(*words)


def _join(nodes: Sequence[Redis], ports: Sequence[int]) -> None:
    for number, node in enumerate(nodes):
        mine = range(number * SLOTS // len(nodes), (number + 1) * SLOTS // len(nodes))
        _command(node, "CLUSTER ADDSLOTS", *mine)
        _command(node, "CLUSTER SET-CONFIG-EPOCH", number + 1)
    for port in ports[1:]:
        _command(nodes[0], "CLUSTER MEET", "127.0.0.1", port)
    for node in nodes:
        eventually(partial(_sees_all, node, len(nodes)), "the cluster has formed")


def _sees_all(node: Redis, count: int) -> bool:
    info = _command(node, "CLUSTER INFO")
    text = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
    return text["cluster_state"] == "ok" and int(text["cluster_known_nodes"]) == count


def _node_lines(node: Redis) -> list[bytes]:
    answer: Any = node.connection_pool.get_connection()
    try:
        answer.send_command("CLUSTER", "NODES")
        text = answer.read_response()
    finally:
        node.connection_pool.release(answer)
    return [line for line in text.splitlines() if line]


def _answers(node: Redis) -> bool:
    try:
        return bool(node.ping())
    except RedisConnectionError:
        return False


def _free_ports(count: int) -> list[int]:
    """Ports whose cluster bus port, 10,000 above, is free too."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            port = port - BUS_OFFSET if port + BUS_OFFSET > 65_535 else port
            if _hold(held, port) and _hold(held, port + BUS_OFFSET):
                found.append(port)
    return found


def _hold(held: ExitStack, port: int) -> bool:
    sock = held.enter_context(socket.socket())
    try:
        sock.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
